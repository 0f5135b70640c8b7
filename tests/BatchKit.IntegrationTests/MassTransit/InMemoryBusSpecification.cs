using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

public sealed class InMemoryBusSpecification : TransportSpecification
{
    protected override TransportPromises Promises =>
        TransportPromises.Ordered | TransportPromises.Once | TransportPromises.RefusesMissingNodes;

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) =>
        new MassTransitHarness(await MassTransitNode.StartReadyAsync(ReceiverNode, static options => options.UnroutableGrace = TimeSpan.Zero, _ => nextHop));
}
