using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

public sealed class InMemoryBusSpecification : TransportSpecification
{
    protected override TransportPromises Promises =>
        TransportPromises.Ordered | TransportPromises.Once | TransportPromises.RefusesMissingNodes;

    // MassTransit and the client below it drop a message when a listener to their own activities throws; no adapter on top can have it again.
    protected override bool ThrowsFor(string source) => source.StartsWith("BatchKit", StringComparison.Ordinal);

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) =>
        await MassTransitHarness.ConnectAsync(ReceiverNode, static options => options.UnroutableGrace = TimeSpan.Zero, nextHop, Surroundings);
}
