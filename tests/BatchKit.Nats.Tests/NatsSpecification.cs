using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.Nats.Tests;

/// <summary>JetStream keeps the rules of a transport, on the real server.</summary>
public class NatsSpecification(NatsFixture nats) : TransportSpecification
{
    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once;

    protected override int Cancellations => TestSupport.Cancellations.Count();

    protected virtual NatsDelivery Delivery => NatsDelivery.AtLeastOnce;

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var options = await nats.NewOptionsAsync();
        options.Delivery = Delivery;
        var receiving = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        var batches = new BatchReceiver(nextHop, receiving, Surroundings.TimeProvider, Surroundings.CreateLogger<BatchReceiver>());
        var receiver = new NatsReceiver(
            options, new NodeNumber(ReceiverNode), batches, timeProvider: Surroundings.TimeProvider, logger: Surroundings.CreateLogger<NatsReceiver>());
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return new NatsHarness(new NatsTransport(options, timeProvider: Surroundings.TimeProvider, logger: Surroundings.CreateLogger<NatsTransport>()), receiver, options, receiving);
    }

    private sealed class NatsHarness(NatsTransport transport, NatsReceiver receiver, params object[] options) : TransportHarness
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

/// <summary>Core NATS keeps the rules of a transport.</summary>
public sealed class CoreNatsSpecification(NatsFixture nats) : NatsSpecification(nats)
{
    protected override NatsDelivery Delivery => NatsDelivery.AtMostOnce;
}
