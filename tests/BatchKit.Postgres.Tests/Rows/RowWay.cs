using BatchKit.TestServers.Postgres;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Rows;

/// <summary>A transport whose handles are ordered queues, and a receiver for each of them.</summary>
internal sealed class RowWay : IAsyncDisposable
{
    private readonly TestSchema _schema;
    private readonly Dictionary<string, RowCollector> _collectors = [];
    private readonly List<PostgresQueueReceiver> _receivers = [];

    private RowWay(TestSchema schema, int shards)
    {
        _schema = schema;
        Transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, Shards = shards });
    }

    public PostgresQueueTransport Transport { get; }

    public TestSchema Schema => _schema;

    public static async Task<RowWay> OpenAsync(TestSchema schema, int shards, params string[] queues)
    {
        var way = new RowWay(schema, shards);
        foreach (var queue in queues)
        {
            var collector = way._collectors[queue] = new RowCollector();
            var options = new PostgresQueueReceiverOptions
            {
                Schema = schema.Name,
                Queue = queue,
                Shards = shards,
                Concurrency = 2,
                RetryDelay = TimeSpan.FromMilliseconds(1),
                MaxRetryDelay = TimeSpan.FromMilliseconds(5),
                PollInterval = TimeSpan.FromMilliseconds(100),
            };
            var receiver = new PostgresQueueReceiver(schema.DataSource, options, collector);
            way._receivers.Add(receiver);
            await receiver.StartAsync(CancellationToken.None).WithinDeadline();
            Assert.Null(receiver.Fault);
        }

        return way;
    }

    public RowCollector Of(string queue) => _collectors[queue];

    public Task SendAsync(params MessageBatch[] batches) => Transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    public async ValueTask DisposeAsync()
    {
        await Transport.DisposeAsync();
        foreach (var receiver in _receivers)
            await receiver.DisposeAsync();
        await _schema.DisposeAsync();
    }
}
