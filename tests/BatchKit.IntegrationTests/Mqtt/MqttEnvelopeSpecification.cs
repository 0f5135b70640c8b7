using BatchKit.Mqtt;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Envelope mode keeps the rules of a transport, on the real broker.</summary>
public abstract class MqttEnvelopeSpecification(MosquittoFixture fixture, MqttVersion version) : TransportSpecification
{
    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once;

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var options = MqttSome.Envelope(await fixture.GetAsync(), options => options.Version = version);
        return new MqttHarness(new MqttTransport(options), await MqttEnds.StartAsync(options, nextHop, ReceiverNode));
    }
}
