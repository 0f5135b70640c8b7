using System.Collections.Concurrent;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Receiving;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>What a receiver asks the server for, and how much it settles at a time.</summary>
public sealed class PrefetcherTests(PostgresFixture fixture)
{
    [Theory]
    [InlineData(400, 100, 2)]
    [InlineData(0, 3, 3)]
    public async Task A_pause_gives_back_no_more_at_a_time_than_the_server_can_settle_fast(int bytes, int mostClaims, int most)
    {
        const int Batches = 10;
        var handler = ScriptedHandler.Gated(out var began, out var open);
        var store = new RecordingStore { Left = Batches, Bytes = bytes, MostClaims = mostClaims };
        await using var scene = await Scene.OpenAsync(fixture, store, handler, static options => (options.Prefetch, options.MaxBatchBytes) = (Batches, 1000));
        await began.WithinDeadline();

        var (_, emptied) = scene.Parts.Intake.Pause();
        store.Settling = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        open.SetResult();
        // The others are given back during the first settlement.
        await Until.TrueAsync(() => store.Settled.Any(static settled => settled > 0) && scene.Parts.Counters.Read().PrefetchedMessages == 0);
        store.Settling.SetResult();
        await emptied.WithinDeadline();

        Assert.All(store.Settled, settled => Assert.InRange(settled, 0, most));
        Assert.Equal(Batches, store.Settled.Sum());
    }

    [Fact]
    public async Task Retries_have_every_other_request_for_claims_however_many_only_settle()
    {
        const int Requests = 12;
        var store = new RecordingStore { Left = int.MaxValue };
        using var turns = new SemaphoreSlim(initialCount: 0);
        await using var scene = await Scene.OpenAsync(fixture, store, new ScriptedHandler((_, token) => new ValueTask(turns.WaitAsync(token))), static options => options.Prefetch = 4);

        for (var handled = 1; store.Claiming.Length < Requests; handled++)
        {
            turns.Release();
            await Until.TrueAsync(() => store.Settled.Sum() >= handled);
        }

        turns.Release(int.MaxValue / 2);
        Assert.Equal(Enumerable.Range(0, Requests).Select(static index => index % 2 == 0), store.Claiming.Take(Requests).Select(static request => request.Retries == request.Claims));
    }

    [Theory]
    [InlineData(0, true)]
    [InlineData(0, false)]
    [InlineData(1, true)]
    [InlineData(1, false)]
    public async Task When_no_work_is_left_upkeep_looks_for_what_is_due_later(int prefetch, bool hasFailed)
    {
        // A worker that is told of more work wakes another look, which finds none.
        var store = new RecordingStore { Left = 2, TellsMore = prefetch > 0 };
        var handler = new ScriptedHandler((batch, _) =>
        {
            if (hasFailed && batch[0].Id == 1)
                batch[0].Retry("once");
            return ValueTask.CompletedTask;
        });
        await using var scene = await Scene.OpenAsync(fixture, store, handler, options => options.Prefetch = prefetch);

        await scene.Parts.UpkeepAlarm.WaitAsync(TimeSpan.FromMinutes(10), TestContext.Current.CancellationToken).WithinDeadline();

        await handler.WaitForAsync(2);
    }

    private sealed class Scene : IAsyncDisposable
    {
        private readonly StopPhases _stop = new();
        private readonly ClaimScene _claims;
        private readonly Task _running;

        private Scene(ClaimScene claims, IClaimStore store, IMessageHandler<QueueMessage> handler)
        {
            _claims = claims;
            var logger = new Logger<PostgresQueueReceiver>(new LogCollector());
            var health = new ReceiverHealth(claims.Schema.DataSource, claims.Options, logger, new ConnectionReporter(changed: null, "receiver", "server", metrics: null, "postgresql", claims.Options.Queue));
            Parts = new ReceiverParts(claims.Schema.DataSource, claims.Options, store, new ReceiverCounters(), health, new Intake(claims.Options), _stop, TimeProvider.System, logger);
            var runner = new BatchRunner(Parts, handler);
            _running = claims.Options.Prefetch > 0 ? new Prefetcher(Parts, runner).RunAsync() : new Worker(Parts, new SharedExchanges(Parts), runner).RunAsync();
            Parts.Signal.Wake();
        }

        public ReceiverParts Parts { get; }

        public static async Task<Scene> OpenAsync(PostgresFixture fixture, IClaimStore store, IMessageHandler<QueueMessage> handler, Action<PostgresQueueReceiverOptions> configure)
        {
            var claims = await ClaimScene.OpenAsync(fixture, options =>
            {
                (options.Concurrency, options.BatchSize) = (1, 1);
                configure(options);
            });
            return new Scene(claims, store, handler);
        }

        public async ValueTask DisposeAsync()
        {
            await Parts.Stop.StopAsync();
            await _running.WithinDeadline();
            await Parts.DisposeAsync();
            _stop.Dispose();
            await _claims.DisposeAsync();
        }
    }

    /// <summary>Gives claims of one message, and keeps what it was asked.</summary>
    private sealed class RecordingStore : IClaimStore
    {
        private readonly ConcurrentQueue<(int Settled, ClaimRequest Request)> _exchanges = new();
        private int _given;

        public int MostClaims { get; init; } = 100;

        /// <summary>How many claims it has.</summary>
        public int Left { get; init; }

        public int Bytes { get; init; }

        /// <summary>Whether its claims say that there are more.</summary>
        public bool TellsMore { get; init; } = true;

        /// <summary>Settlements wait for it.</summary>
        public TaskCompletionSource? Settling { get; set; }

        public int[] Settled => [.. _exchanges.Select(static exchange => exchange.Settled)];

        public ClaimRequest[] Claiming => [.. _exchanges.Select(static exchange => exchange.Request).Where(static request => request.Claims > 0)];

        public async Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken)
        {
            _exchanges.Enqueue((settled.Count, request));
            if (settled.Count > 0 && Settling is { } settling)
                await settling.Task.WithinDeadline();
            var taken = new List<Claim>();
            while (taken.Count < request.Claims && _given < Left)
                taken.Add(new Claim(this, ++_given, shard: -1, new QueueBatch([Message(_given)])) { HasMore = TellsMore && _given < Left });
            return new ClaimExchange(taken, Refused: []);
        }

        public Task<(ulong Transaction, bool IsSettled)> SettleAsync(NpgsqlTransaction transaction, Claim claim, CancellationToken cancellationToken) => throw new NotSupportedException();

        public Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken) => throw new NotSupportedException();

        public Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken) => throw new NotSupportedException();

        private QueueMessage Message(long id) => new(OutputHandle.Named(ClaimScene.QueueName), id, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, new byte[Bytes]);
    }
}
