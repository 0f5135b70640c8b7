using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

public sealed class RabbitMqBusSpecification(RabbitMqFixture fixture) : TransportSpecification
{
    protected override TransportPromises Promises =>
        TransportPromises.Ordered | TransportPromises.Once | TransportPromises.RefusesMissingNodes;

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var settings = MassTransitSome.Settings(await fixture.GetAsync(), Some.Name("mt"), configure: options => options.UnroutableGrace = TimeSpan.Zero);
        return new MassTransitHarness(await MassTransitNode.StartReadyAsync(ReceiverNode, settings, _ => nextHop));
    }
}
