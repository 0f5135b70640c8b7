using BatchKit.Mqtt;

namespace BatchKit.IntegrationTests.Mqtt;

public sealed class Mqtt5EnvelopeSpecification(MosquittoFixture fixture) : MqttEnvelopeSpecification(fixture, MqttVersion.V5);
