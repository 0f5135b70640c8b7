using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests.Failover;

/// <summary>A process that sends and receives on one data source, in a schema of its own: a queue, an ordered queue and an outbox, each with a writer. Its settings are those of a test that breaks connections.</summary>
internal sealed class DurablePath : IAsyncDisposable
{
    private const int Shards = 4;

    private readonly List<IAsyncDisposable> _parts = [];
    private readonly List<(NumberedFlow Flow, OutputBuffer Output)> _writers = [];
    private readonly CancellationTokenSource _stop = new();
    private Task _writing = Task.CompletedTask;

    private DurablePath(NpgsqlDataSource dataSource) => DataSource = dataSource;

    public NpgsqlDataSource DataSource { get; }

    public string Schema { get; } = $"test_{Guid.NewGuid():N}";

    /// <summary>Through a queue without order.</summary>
    public NumberedFlow Queue { get; } = new("tasks", keys: 4);

    /// <summary>Through an ordered queue.</summary>
    public NumberedFlow Ordered { get; } = new("ordered", keys: 8);

    /// <summary>Through an outbox, to a far receiver that drops what comes twice.</summary>
    public NumberedFlow Outbox { get; } = new("outbox", keys: 1);

    public IReadOnlyList<NumberedFlow> Flows => [Queue, Ordered, Outbox];

    /// <summary>Starts one on the connection string's server or servers.</summary>
    public static async Task<DurablePath> StartAsync(string connectionString)
    {
        var path = new DurablePath(NpgsqlDataSource.Create(connectionString));
        await path.StartQueueAsync(path.Queue, shards: 0);
        await path.StartQueueAsync(path.Ordered, Shards);
        await path.StartOutboxAsync();
        return path;
    }

    /// <summary>Writes on all paths until <see cref="StopWritingAsync"/>.</summary>
    public void Write() => _writing = Task.WhenAll(_writers.Select(writer => Task.Run(() => writer.Flow.WriteUntilAsync(writer.Output, _stop.Token))));

    /// <summary>Completes when all that was written is acknowledged.</summary>
    public async Task StopWritingAsync()
    {
        await _stop.CancelAsync();
        await _writing.WithinDeadline();
    }

    /// <summary>Waits until so many messages more have arrived on each path.</summary>
    public Task WaitForMoreAsync(int messages) => Task.WhenAll(Flows.Select(flow => flow.WaitForMoreAsync(messages)));

    /// <summary>Waits until no message waits or is being handled.</summary>
    public async Task WaitUntilEmptyAsync() => await Until.TrueAsync(async () =>
    {
        var counts = await new PostgresQueueAdmin(DataSource, Schema).ListAsync();
        return counts.All(queue => queue.Ready + queue.Delayed + queue.Claimed == 0);
    });

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync();
        foreach (var part in Enumerable.Reverse(_parts))
            await part.DisposeAsync();
        await DataSource.DisposeAsync();
        _stop.Dispose();
    }

    private async Task StartQueueAsync(NumberedFlow flow, int shards)
    {
        var receiver = Own(new PostgresQueueReceiver(DataSource, new PostgresQueueReceiverOptions
        {
            Schema = Schema,
            Queue = flow.Handle.Name!,
            Shards = shards,
            Concurrency = 4,
            // What a lost connection had claimed unseen comes back soon, and is not buried for having been hit often.
            ClaimTimeLimit = TimeSpan.FromSeconds(2),
            MaxAttempts = 1000,
            RetryDelay = TimeSpan.FromMilliseconds(50),
            ReconnectDelay = TimeSpan.FromMilliseconds(20),
            MaxReconnectDelay = TimeSpan.FromMilliseconds(500),
        }, flow));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        AddWriter(flow, Own(new PostgresQueueTransport(DataSource, new PostgresOptions { Schema = Schema, Shards = shards })));
    }

    private async Task StartOutboxAsync()
    {
        var far = Own(new InMemoryTransport(Outbox));
        var options = new PostgresOutboxOptions { Schema = Schema, ClaimTimeLimit = TimeSpan.FromSeconds(2) };
        var outbox = Own(new PostgresOutbox(DataSource, far, options));
        await outbox.StartAsync(CancellationToken.None).WithinDeadline();
        AddWriter(Outbox, outbox);
    }

    private void AddWriter(NumberedFlow flow, IBatchTransport transport) => _writers.Add((flow, Own(new OutputBuffer(transport, new OutputBufferOptions
    {
        SendTimeout = TimeSpan.FromSeconds(20),
        DeliveryTimeout = TimeSpan.FromMinutes(30),
        RetryDelay = TimeSpan.FromMilliseconds(20),
        MaxRetryDelay = TimeSpan.FromMilliseconds(500),
    }))));

    private T Own<T>(T part)
        where T : IAsyncDisposable
    {
        _parts.Add(part);
        return part;
    }
}
