using BatchKit.Mqtt;

namespace SensorHub.Hosting;

/// <summary>How the hub was asked to run.</summary>
internal sealed class HubOptions
{
    public Uri Server { get; set; } = new("mqtt://localhost:1883");

    public string? UserName { get; set; }

    public string? Password { get; set; }

    /// <summary>The same in each run: at MQTT 3.1.1 a broker keeps a session for ever, and the next run takes it up instead of leaving another one behind.</summary>
    public string ClientId { get; set; } = $"sensorhub-{Environment.MachineName}";

    public MqttVersion Version { get; set; } = MqttVersion.V5;

    public MqttQualityOfService QualityOfService { get; set; } = MqttQualityOfService.AtLeastOnce;

    public int Rate { get; set; } = 20_000;

    public int Topics { get; set; } = 4_000;

    /// <summary>How long to write; null until someone ends it.</summary>
    public TimeSpan? Duration { get; set; }

    /// <summary>How long to wait for the broker at the start; null for ever.</summary>
    public TimeSpan? Patience { get; set; }

    public bool IsPlain { get; set; }

    public bool IsBaseline { get; set; }
}
