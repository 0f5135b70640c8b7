using System.Text;

namespace BatchKit.Mqtt.Packets;

/// <summary>CONNACK (MQTT 5, section 3.2): the broker's answer and its limits. A limit that the broker does not send has the protocol's default.</summary>
internal sealed record ConnackPacket
{
    private const byte SessionPresent = 1;

    /// <summary>A return code of 3.1.1 (section 3.2.2.3) is converted to the reason code with the same meaning.</summary>
    public MqttReasonCode ReasonCode { get; init; }

    public bool IsSessionPresent { get; init; }

    /// <summary>The maximum number of unacknowledged QoS 1 messages; 65,535 if the broker names none, and always in 3.1.1.</summary>
    public int ReceiveMaximum { get; init; } = ushort.MaxValue;

    public uint MaxPacketBytes { get; init; } = uint.MaxValue;

    public ushort TopicAliasMaximum { get; init; }

    public MqttQualityOfService MaximumQualityOfService { get; init; } = MqttQualityOfService.ExactlyOnce;

    public bool IsRetainAvailable { get; init; } = true;

    public bool IsWildcardSubscriptionAvailable { get; init; } = true;

    public bool IsSharedSubscriptionAvailable { get; init; } = true;

    /// <summary>In seconds; null if it is what the client asked for.</summary>
    public uint? SessionExpiry { get; init; }

    /// <summary>In seconds; null if the broker imposes none.</summary>
    public ushort? ServerKeepAlive { get; init; }

    public string? AssignedClientId { get; init; }

    public string? Reason { get; init; }

    /// <summary>Another server to use (MQTT 5, section 3.2.2.3.16), in the broker's words.</summary>
    public string? ServerReference { get; init; }

    /// <exception cref="MqttProtocolException">The packet is malformed.</exception>
    public static ConnackPacket Read(ReadOnlySpan<byte> body, MqttVersion version)
    {
        var reader = new PacketReader(body);
        var flags = reader.ReadByte();
        if (flags > SessionPresent)
            throw MqttProtocolException.Malformed("A CONNACK has an unknown flag.");
        var code = reader.ReadByte();
        // A broker that supports only 3.1.1 answers a CONNECT of MQTT 5 with return code 1 (3.1.1, section 3.1.2.2).
        var isOldAnswer = version != MqttVersion.V5 || (body.Length == 2 && code == 1);
        var connack = new ConnackPacket
        {
            ReasonCode = isOldAnswer ? ReadReturnCode(code) : ReasonCodes.Read(code, MqttReasonCode.Success),
            IsSessionPresent = flags == SessionPresent,
        };
        if (connack.IsSessionPresent && connack.ReasonCode != MqttReasonCode.Success)
            throw MqttProtocolException.Forbidden("A CONNACK refuses the connection and claims that there is a session.");
        if (!isOldAnswer)
            connack = ReadProperties(reader.ReadProperties(), connack);
        reader.RequireEnd();
        return connack;
    }

    private static MqttReasonCode ReadReturnCode(byte code) => code switch
    {
        0 => MqttReasonCode.Success,
        1 => MqttReasonCode.UnsupportedProtocolVersion,
        2 => MqttReasonCode.ClientIdentifierNotValid,
        3 => MqttReasonCode.ServerUnavailable,
        4 => MqttReasonCode.BadUserNameOrPassword,
        5 => MqttReasonCode.NotAuthorized,
        _ => throw MqttProtocolException.Forbidden($"The return code {code} is not valid in a CONNACK."),
    };

    private static ConnackPacket ReadProperties(ReadOnlySpan<byte> properties, ConnackPacket connack)
    {
        var reader = new PropertyReader(properties, PropertySets.Connack);
        while (reader.TryRead(out var property))
            connack = With(connack, property);
        return connack;
    }

    private static ConnackPacket With(ConnackPacket connack, in Property property) => property.Id switch
    {
        PropertyId.SessionExpiry => connack with { SessionExpiry = property.Number },
        PropertyId.ReceiveMaximum => connack with { ReceiveMaximum = (int)property.Number },
        PropertyId.MaximumPacketSize => connack with { MaxPacketBytes = property.Number },
        PropertyId.TopicAliasMaximum => connack with { TopicAliasMaximum = (ushort)property.Number },
        PropertyId.MaximumQualityOfService => connack with { MaximumQualityOfService = (MqttQualityOfService)property.Number },
        PropertyId.RetainAvailable => connack with { IsRetainAvailable = property.Number != 0 },
        PropertyId.WildcardSubscriptionAvailable => connack with { IsWildcardSubscriptionAvailable = property.Number != 0 },
        PropertyId.SharedSubscriptionAvailable => connack with { IsSharedSubscriptionAvailable = property.Number != 0 },
        PropertyId.ServerKeepAlive => connack with { ServerKeepAlive = (ushort)property.Number },
        PropertyId.AssignedClientId => connack with { AssignedClientId = Encoding.UTF8.GetString(property.Value) },
        PropertyId.Reason => connack with { Reason = Encoding.UTF8.GetString(property.Value) },
        PropertyId.ServerReference => connack with { ServerReference = Encoding.UTF8.GetString(property.Value) },
        _ => connack,
    };
}
