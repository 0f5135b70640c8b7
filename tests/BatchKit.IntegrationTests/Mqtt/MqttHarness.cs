using BatchKit.Mqtt;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A transport and its receiver over one broker.</summary>
internal sealed class MqttHarness(MqttTransport transport, MqttReceiver receiver, params object[] options) : TransportHarness
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
