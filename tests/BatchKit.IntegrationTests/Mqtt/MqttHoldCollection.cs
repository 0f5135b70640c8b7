namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What must hold under a steady load, measured with no test beside it.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
public sealed class MqttHoldCollection
{
    public const string Name = "MQTT holds";
}
