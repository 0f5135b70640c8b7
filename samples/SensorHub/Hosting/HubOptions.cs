using BatchKit.Mqtt;

namespace SensorHub.Hosting;

/// <summary>The options of one run of the hub.</summary>
internal sealed class HubOptions
{
    public Uri Server { get; set; } = new("mqtt://localhost:1883");

    public string? UserName { get; set; }

    public string? Password { get; set; }

    /// <summary>The same in each run. An MQTT 3.1.1 broker keeps a session for ever, so a new id in each run would leave one more session behind.</summary>
    public string ClientId { get; set; } = $"sensorhub-{Environment.MachineName}";

    public MqttVersion Version { get; set; } = MqttVersion.V5;

    public MqttQualityOfService QualityOfService { get; set; } = MqttQualityOfService.AtLeastOnce;

    public int Rate { get; set; } = 20_000;

    public int Topics { get; set; } = 4_000;

    /// <summary>How long to write; null to write until the program is stopped.</summary>
    public TimeSpan? Duration { get; set; }

    /// <summary>How long to wait for the broker at the start; null to wait for ever.</summary>
    public TimeSpan? Patience { get; set; }

    public bool IsPlain { get; set; }

    public bool IsBaseline { get; set; }
}
