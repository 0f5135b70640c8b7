using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests;

/// <summary>A transport and its receiver over one broker.</summary>
internal sealed class BrokerHarness<TTransport>(TTransport transport, IAsyncDisposable receiver, params object[] options) : TransportHarness
    where TTransport : IBatchTransport, IAsyncDisposable
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
