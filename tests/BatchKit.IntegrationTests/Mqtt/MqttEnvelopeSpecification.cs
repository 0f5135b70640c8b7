using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Envelope mode keeps the rules of a transport, on the real broker.</summary>
public abstract class MqttEnvelopeSpecification(MosquittoFixture fixture, MqttVersion version) : TransportSpecification
{
    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once;

    protected override int Cancellations => TestSupport.Cancellations.Count();

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var options = MqttSome.Envelope(await fixture.GetAsync(), options => options.Version = version);
        var receiving = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        var (clock, batches) = (Surroundings.TimeProvider, new BatchReceiver(nextHop, receiving, Surroundings.TimeProvider, Surroundings.CreateLogger<BatchReceiver>()));
        var receiver = new MqttReceiver(options, ReceiverNode, batches, clock, Surroundings.CreateLogger<MqttReceiver>());
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);
        return new BrokerHarness<MqttTransport>(new MqttTransport(options, clock, Surroundings.CreateLogger<MqttTransport>()), receiver, options, receiving);
    }
}

public sealed class Mqtt5EnvelopeSpecification(MosquittoFixture fixture) : MqttEnvelopeSpecification(fixture, MqttVersion.V5);

public sealed class Mqtt311EnvelopeSpecification(MosquittoFixture fixture) : MqttEnvelopeSpecification(fixture, MqttVersion.V311);
