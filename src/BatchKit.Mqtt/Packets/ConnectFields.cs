namespace BatchKit.Mqtt.Packets;

/// <summary>What a CONNECT says.</summary>
internal sealed record ConnectFields
{
    public required MqttVersion Version { get; init; }

    public required string ClientId { get; init; }

    public required MqttCredentials Credentials { get; init; }

    public required bool CleanStart { get; init; }

    /// <summary>In seconds.</summary>
    public required ushort KeepAlive { get; init; }

    /// <summary>In seconds; MQTT 5 only.</summary>
    public required uint SessionExpiry { get; init; }

    public required ushort ReceiveMaximum { get; init; }

    public required uint MaxPacketBytes { get; init; }

    public required ushort TopicAliasMaximum { get; init; }

    /// <summary>Its QoS and retain are set.</summary>
    public required MqttWill? Will { get; init; }
}
