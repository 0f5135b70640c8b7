using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.Redis.Tests;

/// <summary>Redis pub/sub keeps the rules of a transport, on the real server.</summary>
public sealed class RedisSpecification(RedisFixture redis) : TransportSpecification
{
    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once | TransportPromises.RefusesMissingNodes;

    protected override int Cancellations => TestSupport.Cancellations.Count();

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var options = await redis.NewOptionsAsync();
        var receiving = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        var batches = new BatchReceiver(nextHop, receiving, Surroundings.TimeProvider, Surroundings.CreateLogger<BatchReceiver>());
        var receiver = new RedisReceiver(
            options, new NodeNumber(ReceiverNode), batches, timeProvider: Surroundings.TimeProvider, logger: Surroundings.CreateLogger<RedisReceiver>());
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return new RedisHarness(new RedisTransport(options, timeProvider: Surroundings.TimeProvider, logger: Surroundings.CreateLogger<RedisTransport>()), receiver, options, receiving);
    }

    private sealed class RedisHarness(RedisTransport transport, RedisReceiver receiver, params object[] options) : TransportHarness
    {
        public override IBatchTransport Transport => transport;

        public override IReadOnlyList<object> Options => options;

        public override ValueTask DisposeTransportAsync() => transport.DisposeAsync();

        public override async ValueTask DisposeAsync()
        {
            await transport.DisposeAsync();
            await receiver.DisposeAsync();
        }
    }
}
