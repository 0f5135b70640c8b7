using System.Threading.Channels;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Receiving;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>Workers that finish during an exchange share the next one; a fault stays with the claim that has it.</summary>
public sealed class SharedExchangesTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_lone_exchange_begins_at_once_and_those_that_wait_share_the_next_one()
    {
        await using var scene = await Scene.OpenAsync(fixture, workers: 5);
        await scene.Claims.InsertAsync("a", "b", "c", "d", "e");

        var first = scene.ExchangeAsync(settled: null);
        var held = await scene.Store.NextAsync();
        Task<HeldClaim?>[] others = [scene.ExchangeAsync(settled: null)];
        Assert.Equal(1, held.Request.Claims);
        // Two of five workers are enough for a second exchange.
        others = [.. others, scene.ExchangeAsync(settled: null)];
        var second = await scene.Store.NextAsync();
        Assert.Equal(2, second.Request.Claims);
        others = [.. others, scene.ExchangeAsync(settled: null), scene.ExchangeAsync(settled: null)];
        held.Go.SetResult();
        var third = await scene.Store.NextAsync();
        Assert.Equal(2, third.Request.Claims);
        second.Go.SetResult();
        third.Go.SetResult();

        var taken = await Task.WhenAll([first, .. others]).WithinDeadline();
        Assert.Equal(["a", "b", "c", "d", "e"], taken.SelectMany(static claim => ClaimScene.TextsOf(claim!.Claim)).Order());
        Assert.False(scene.Store.HasNext);
    }

    [Fact]
    public async Task An_exchange_that_hangs_holds_up_only_its_own_workers()
    {
        await using var scene = await Scene.OpenAsync(fixture, workers: 10);
        await scene.Claims.InsertAsync("a", "b", "c");
        var hanging = scene.ExchangeAsync(settled: null);
        var hangs = await scene.Store.NextAsync();
        Task<HeldClaim?>[] others = [scene.ExchangeAsync(settled: null), scene.ExchangeAsync(settled: null)];
        Assert.False(scene.Store.HasNext);

        scene.Clock.Advance(TimeSpan.FromMilliseconds(100));
        var overtaking = await scene.Store.NextAsync();
        overtaking.Go.SetResult();
        var taken = await Task.WhenAll(others).WithinDeadline();

        Assert.Equal(2, overtaking.Request.Claims);
        Assert.All(taken, Assert.NotNull);
        Assert.False(hanging.IsCompleted);
        var next = scene.ExchangeAsync(taken[0]);
        (await scene.Store.NextAsync()).Go.SetResult();
        Assert.Equal(["c"], ClaimScene.TextsOf((await next.WithinDeadline())!.Claim));
        hangs.Go.SetResult();
        Assert.Null(await hanging.WithinDeadline());
    }

    [Theory]
    [InlineData(0)]
    [InlineData(20)]
    public async Task A_settlement_that_the_server_refuses_stops_no_other(int prefetch)
    {
        const int Messages = 40;
        var handled = 0;
        var handler = new ScriptedHandler((batch, _) =>
        {
            Interlocked.Increment(ref handled);
            foreach (var message in batch)
            {
                if (ClaimScene.TextOf(message) == "bad")
                    message.Refuse("bad");
            }

            return ValueTask.CompletedTask;
        });
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, options =>
        {
            (options.BatchSize, options.Concurrency, options.Prefetch) = (1, 8, prefetch);
            options.ReconnectDelay = TimeSpan.FromMilliseconds(10);
        });
        await scene.Claims.Schema.ExecuteAsync("alter table {s}.dead add constraint no_bad check (error is distinct from 'bad')");
        await scene.Claims.InsertAsync([.. Some.Lines(Messages / 2), "bad", .. Some.Lines(Messages / 2, start: Messages / 2)]);

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == Messages);
        // The others may be done before it is refused alone.
        await Until.TrueAsync(() => scene.Receiver.Fault?.Contains("no_bad", StringComparison.Ordinal) ?? false);
        await scene.Claims.Schema.ExecuteAsync("alter table {s}.dead drop constraint no_bad");
        await scene.UntilAsync(static statistics => statistics.BuriedMessages == 1);

        await Until.TrueAsync(() => scene.Receiver.Fault is null);
        Assert.Equal((Messages + 1, 0L), (handled, scene.Statistics.LostMessages));
    }

    private sealed class Scene : IAsyncDisposable
    {
        private readonly StopPhases _stop = new();
        private readonly ReceiverParts _parts;
        private readonly SharedExchanges _exchanges;

        private Scene(ClaimScene claims)
        {
            Claims = claims;
            Store = new HoldingStore(claims.Store);
            var logger = new Logger<PostgresQueueReceiver>(new LogCollector());
            var health = new ReceiverHealth(claims.Schema.DataSource, claims.Options, logger, new ConnectionReporter(changed: null, "receiver", "server", metrics: null, "postgresql", claims.Options.Queue));
            _parts = new ReceiverParts(claims.Schema.DataSource, claims.Options, Store, new ReceiverCounters(), health, new Intake(claims.Options), _stop, Clock, logger);
            _exchanges = new SharedExchanges(_parts);
        }

        public ClaimScene Claims { get; }

        public HoldingStore Store { get; }

        public ManualTimeProvider Clock { get; } = new();

        public static async Task<Scene> OpenAsync(PostgresFixture fixture, int workers) =>
            new(await ClaimScene.OpenAsync(fixture, options => (options.Concurrency, options.BatchSize) = (workers, 1)));

        public Task<HeldClaim?> ExchangeAsync(HeldClaim? settled) => _exchanges.ExchangeAsync(new ClaimExchanger(_parts), settled, isRetriesTurn: false).AsTask();

        public async ValueTask DisposeAsync()
        {
            await _parts.DisposeAsync();
            _stop.Dispose();
            await Claims.DisposeAsync();
        }
    }

    /// <summary>An exchange that waits before it reaches the server.</summary>
    private sealed record HeldExchange(ClaimRequest Request, TaskCompletionSource Go);

    /// <summary>Holds each exchange until the test lets it go.</summary>
    private sealed class HoldingStore(IClaimStore inner) : IClaimStore
    {
        private readonly Channel<HeldExchange> _held = Channel.CreateUnbounded<HeldExchange>();

        public int MostClaims => inner.MostClaims;

        public bool HasNext => _held.Reader.Count > 0;

        public Task<HeldExchange> NextAsync() => _held.Reader.ReadAsync().AsTask().WithinDeadline();

        public async Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken)
        {
            var go = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            _held.Writer.TryWrite(new HeldExchange(request, go));
            await go.Task;
            return await inner.ExchangeAsync(connection, settled, request, cancellationToken);
        }

        public Task<(ulong Transaction, bool IsSettled)> SettleAsync(NpgsqlTransaction transaction, Claim claim, CancellationToken cancellationToken) => inner.SettleAsync(transaction, claim, cancellationToken);

        public Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken) => inner.RenewAsync(connection, held, cancellationToken);

        public Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken) => inner.UpkeepAsync(connection, cancellationToken);
    }
}
