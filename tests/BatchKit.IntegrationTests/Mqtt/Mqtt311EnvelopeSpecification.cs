using BatchKit.Mqtt;

namespace BatchKit.IntegrationTests.Mqtt;

public sealed class Mqtt311EnvelopeSpecification(MosquittoFixture fixture) : MqttEnvelopeSpecification(fixture, MqttVersion.V311);
