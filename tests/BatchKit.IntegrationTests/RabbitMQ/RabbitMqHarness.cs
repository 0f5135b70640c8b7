using BatchKit.RabbitMQ;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A transport and its receiver over one broker.</summary>
internal sealed class RabbitMqHarness(RabbitMqTransport transport, RabbitMqReceiver receiver) : TransportHarness
{
    public override IBatchTransport Transport => transport;

    public override ValueTask DisposeTransportAsync() => transport.DisposeAsync();

    public override async ValueTask DisposeAsync()
    {
        await transport.DisposeAsync();
        await receiver.DisposeAsync();
    }
}
