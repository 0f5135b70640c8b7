using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>A node whose transport sends to its own receiver.</summary>
internal sealed class MassTransitHarness(MassTransitNode node) : TransportHarness
{
    public override IBatchTransport Transport => node.Transport;

    public override ValueTask DisposeTransportAsync() => node.Transport.DisposeAsync();

    public override ValueTask DisposeAsync() => node.DisposeAsync();
}
