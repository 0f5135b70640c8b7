using BatchKit.Postgres.Frames;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Frames;

/// <summary>Frame mode keeps the rules of a transport, on the real server.</summary>
public sealed class PostgresFrameSpecification(PostgresFixture fixture) : TransportSpecification
{
    private const string Queue = "frames";

    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once;

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var schema = await fixture.NewSchemaAsync();
        var retries = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = Queue, Shards = 1, Concurrency = 1, Poison = PoisonPolicy.Block };
        var (clock, batches) = (Surroundings.TimeProvider, new BatchReceiver(nextHop, retries, Surroundings.TimeProvider, Surroundings.CreateLogger<BatchReceiver>()));
        var receiver = new PostgresQueueReceiver(schema.DataSource, options, new FrameHandler(batches), clock, Surroundings.CreateLogger<PostgresQueueReceiver>());
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);
        var sending = new PostgresOptions { Schema = schema.Name, FrameQueue = Queue };
        var transport = new PostgresQueueTransport(schema.DataSource, sending, clock, Surroundings.CreateLogger<PostgresQueueTransport>());
        return new PostgresHarness(schema, transport, receiver, options, retries, sending);
    }
}
