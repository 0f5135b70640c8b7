using BatchKit.RabbitMQ;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>RabbitMQ keeps the rules of a transport, on the real broker.</summary>
public sealed class RabbitMqSpecification(RabbitMqFixture fixture) : TransportSpecification
{
    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once | TransportPromises.RefusesMissingNodes;

    protected override int Cancellations => TestSupport.Cancellations.Count();

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.UnroutableGrace = TimeSpan.Zero);
        var receiving = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        var (clock, batches) = (Surroundings.TimeProvider, new BatchReceiver(nextHop, receiving, Surroundings.TimeProvider, Surroundings.CreateLogger<BatchReceiver>()));
        var receiver = new RabbitMqReceiver(options, ReceiverNode, batches, clock, Surroundings.CreateLogger<RabbitMqReceiver>());
        await receiver.StartAsync(CancellationToken.None);
        return new BrokerHarness<RabbitMqTransport>(new RabbitMqTransport(options, clock, Surroundings.CreateLogger<RabbitMqTransport>()), receiver, options, receiving);
    }
}
