using BatchKit.Postgres.Receiving;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>The receivers of a process share one connection that listens and one for upkeep, and a fault of one queue stops no other.</summary>
public sealed class ReceiverConnectionsTests(PostgresFixture postgres) : IAsyncLifetime
{
    private const int Queues = 20;

    private readonly List<PostgresQueueReceiver> _receivers = [];
    private readonly KeepingHandler _handler = new();
    private TestSchema? _schema;
    private NpgsqlDataSource? _pool;

    private TestSchema Schema => _schema!;

    private NpgsqlDataSource Pool => _pool!;

    public async ValueTask InitializeAsync()
    {
        _schema = await postgres.NewSchemaAsync();

        // The pool closes at once what it no longer needs: on a busy machine many queues look for their first message at the same time.
        _pool = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(Schema.DataSource.ConnectionString) { ApplicationName = Schema.Name, ConnectionIdleLifetime = 1, ConnectionPruningInterval = 1 });
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var receiver in _receivers)
            await receiver.DisposeAsync();
        await Pool.DisposeAsync();
        await Schema.DisposeAsync();
    }

    [Fact]
    public async Task Twenty_idle_queues_take_at_most_four_connections_and_are_found_by_notifications()
    {
        for (var queue = 0; queue < Queues; queue++)
            await StartAsync($"queue {queue}", options => options.PollInterval = TimeSpan.FromMinutes(5));
        await Until.TrueAsync(async () => await CountAsync("and query ilike 'listen %'") == 1);
        await Until.TrueAsync(async () => await CountAsync() is >= 2 and <= 4);

        for (var queue = 0; queue < Queues; queue++)
            await SendAsync($"queue {queue}");
        await _handler.WaitForAsync(Queues);

        Assert.Equal(Queues, _handler.Texts.Distinct(StringComparer.Ordinal).Count());
    }

    [Fact]
    public async Task Queues_go_on_when_others_stop_and_start_again()
    {
        var first = await StartAsync("first");
        await StartAsync("second");
        await first.StopAsync(CancellationToken.None).WithinDeadline();

        await SendAsync("second");
        await _handler.WaitForAsync(1);
        await SendAsync("first");
        await StartAsync("first");
        await _handler.WaitForAsync(1);

        Assert.Equal(["second", "first"], _handler.Texts);
    }

    [Fact]
    public async Task Receivers_that_listen_differently_share_no_connection()
    {
        await using var other = await postgres.NewSchemaAsync();
        await StartAsync("tasks");
        await StartAsync("tasks", options => options.Schema = other.Name);
        await StartAsync("tasks", options => options.ListenKeepAlive = TimeSpan.FromSeconds(5));

        await Until.TrueAsync(async () => await CountAsync("and query ilike 'listen %'") == 3);
    }

    [Fact]
    public async Task An_upkeep_that_hangs_delays_no_other_and_one_connection_remains()
    {
        var clock = new ManualTimeProvider();
        await using var care = new CareConnection(Pool, clock);
        var hangs = new TaskCompletionSource();
        var hanging = UseAsync(care, hangs.Task);
        var waiting = UseAsync(care, Task.CompletedTask);
        Assert.False(waiting.IsCompleted);

        clock.Advance(TimeSpan.FromMilliseconds(100));
        var second = await waiting.WithinDeadline();
        var third = await UseAsync(care, Task.CompletedTask).WithinDeadline();
        hangs.SetResult();
        var first = await hanging.WithinDeadline();

        Assert.NotEqual(first, second);
        Assert.Equal([second, second], [third, await UseAsync(care, Task.CompletedTask).WithinDeadline()]);
        await using var free = await Pool.OpenConnectionAsync(TestContext.Current.CancellationToken);
        Assert.Equal(first, free.ProcessID);
    }

    [Fact]
    public async Task A_cancelled_wait_for_upkeep_takes_no_connection_along()
    {
        await using var care = new CareConnection(Pool, new ManualTimeProvider());
        var hangs = new TaskCompletionSource();
        var hanging = UseAsync(care, hangs.Task);
        using var cancellation = new CancellationTokenSource();
        var waiting = care.UseAsync(static (connection, _) => Task.FromResult(connection.ProcessID), cancellation.Token);

        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waiting).WithinDeadline();
        hangs.SetResult();

        Assert.Equal(await hanging.WithinDeadline(), await UseAsync(care, Task.CompletedTask).WithinDeadline());
    }

    private static Task<int> UseAsync(CareConnection care, Task until) => care.UseAsync(
        async (connection, _) =>
        {
            await until;
            return connection.ProcessID;
        },
        TestContext.Current.CancellationToken);

    private async Task<PostgresQueueReceiver> StartAsync(string queue, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        var options = new PostgresQueueReceiverOptions { Schema = Schema.Name, Queue = queue };
        configure?.Invoke(options);
        var receiver = new PostgresQueueReceiver(Pool, options, _handler);
        _receivers.Add(receiver);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return receiver;
    }

    private async Task SendAsync(string queue)
    {
        await using var transport = new PostgresQueueTransport(Schema.DataSource, new PostgresOptions { Schema = Schema.Name });
        await using var output = new OutputBuffer(transport);
        await output.WriteAsync(OutputHandle.Named(queue), queue);
        await output.FlushAsync(OutputHandle.Named(queue));
    }

    private Task<long> CountAsync(string which = "") => Schema.ScalarAsync<long>($"select count(*) from pg_stat_activity where application_name = '{Schema.Name}' {which}");
}
