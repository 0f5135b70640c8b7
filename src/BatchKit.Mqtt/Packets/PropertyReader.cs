using System.Text;

namespace BatchKit.Mqtt.Packets;

/// <summary>
/// Reads a packet's properties one by one. Checks that the packet may have them, that none is repeated unless the protocol allows it, and that their values are in
/// range.
/// </summary>
/// <param name="properties">The properties without their length prefix.</param>
/// <param name="allowed">One of <see cref="PropertySets"/>.</param>
internal ref struct PropertyReader(ReadOnlySpan<byte> properties, ulong allowed)
{
    private PacketReader _reader = new(properties);
    private ulong _seen;

    /// <summary>Reads the next property.</summary>
    /// <returns>False when there are no more.</returns>
    /// <exception cref="MqttProtocolException">The property is malformed or not allowed here.</exception>
    public bool TryRead(out Property property)
    {
        property = default;
        if (_reader.Rest.IsEmpty)
            return false;
        property.Id = ReadId();
        switch (property.Id)
        {
            case PropertyId.SubscriptionIdentifier:
                property.Number = (uint)_reader.ReadLength();
                break;
            case PropertyId.ServerKeepAlive or PropertyId.ReceiveMaximum or PropertyId.TopicAliasMaximum or PropertyId.TopicAlias:
                property.Number = _reader.ReadTwoBytes();
                break;
            case PropertyId.MessageExpiry or PropertyId.SessionExpiry or PropertyId.WillDelay or PropertyId.MaximumPacketSize:
                property.Number = _reader.ReadFourBytes();
                break;
            case PropertyId.UserProperty:
                property.Name = _reader.ReadText();
                property.Value = _reader.ReadText();
                break;
            case PropertyId.CorrelationData or PropertyId.AuthenticationData:
                property.Value = _reader.ReadBinary();
                break;
            case PropertyId.ContentType or PropertyId.ResponseTopic or PropertyId.AssignedClientId or PropertyId.AuthenticationMethod
                or PropertyId.ResponseInformation or PropertyId.ServerReference or PropertyId.Reason:
                property.Value = _reader.ReadText();
                break;
            case PropertyId.PayloadFormat:
                // Not validated, because a broker passes on what the publisher wrote. If this client closed the connection, the broker would send the message again on every connection.
                property.Number = _reader.ReadByte();
                break;
            default:
                property.Number = ReadBit();
                break;
        }

        CheckNumber(property);
        return true;
    }

    private PropertyId ReadId()
    {
        // Identifiers are variable byte integers, but all of them fit in one byte.
        var id = _reader.ReadByte();
        var bit = id < 64 ? 1UL << id : 0;
        if ((bit & allowed) == 0)
            throw MqttProtocolException.Malformed("A property is unknown, or not allowed in its packet.");
        if ((bit & _seen & ~PropertySets.Repeatable) != 0)
            throw MqttProtocolException.Forbidden("A property is repeated.");
        _seen |= bit;
        return (PropertyId)id;
    }

    private uint ReadBit() => _reader.ReadByte() is var value and <= 1 ? value : throw MqttProtocolException.Forbidden("A property that must be 0 or 1 has another value.");

    private static void CheckNumber(in Property property)
    {
        if (property.Number != 0)
            return;
        if (property.Id == PropertyId.TopicAlias)
            throw new MqttProtocolException(MqttReasonCode.TopicAliasInvalid, "A topic alias is 0.");
        if (property.Id is PropertyId.SubscriptionIdentifier or PropertyId.ReceiveMaximum or PropertyId.MaximumPacketSize)
            throw MqttProtocolException.Forbidden("A property that must not be 0 is 0.");
    }
}

/// <summary>A received property; it refers to the memory of the packet.</summary>
internal ref struct Property
{
    public PropertyId Id;

    /// <summary>The value of a numeric property.</summary>
    public uint Number;

    /// <summary>The value of a text, binary or user property.</summary>
    public ReadOnlySpan<byte> Value;

    /// <summary>The name of a user property.</summary>
    public ReadOnlySpan<byte> Name;
}

/// <summary>Reads properties and returns the reason string and the server reference among them.</summary>
internal static class ReasonProperty
{
    /// <exception cref="MqttProtocolException">The properties are malformed.</exception>
    public static string? Read(ReadOnlySpan<byte> properties, ulong allowed) => Read(properties, allowed, out _);

    /// <exception cref="MqttProtocolException">The properties are malformed.</exception>
    public static string? Read(ReadOnlySpan<byte> properties, ulong allowed, out string? serverReference)
    {
        string? reason = serverReference = null;
        var reader = new PropertyReader(properties, allowed);
        while (reader.TryRead(out var property))
        {
            if (property.Id == PropertyId.Reason)
                reason = Encoding.UTF8.GetString(property.Value);
            else if (property.Id == PropertyId.ServerReference)
                serverReference = Encoding.UTF8.GetString(property.Value);
        }

        return reason;
    }
}

/// <summary>The property identifiers (MQTT 5, section 2.2.2.2).</summary>
internal enum PropertyId : byte
{
    PayloadFormat = 1,
    MessageExpiry = 2,
    ContentType = 3,
    ResponseTopic = 8,
    CorrelationData = 9,
    SubscriptionIdentifier = 11,
    SessionExpiry = 17,
    AssignedClientId = 18,
    ServerKeepAlive = 19,
    AuthenticationMethod = 21,
    AuthenticationData = 22,
    WillDelay = 24,
    ResponseInformation = 26,
    ServerReference = 28,
    Reason = 31,
    ReceiveMaximum = 33,
    TopicAliasMaximum = 34,
    TopicAlias = 35,
    MaximumQualityOfService = 36,
    RetainAvailable = 37,
    UserProperty = 38,
    MaximumPacketSize = 39,
    WildcardSubscriptionAvailable = 40,
    SubscriptionIdentifierAvailable = 41,
    SharedSubscriptionAvailable = 42,
}

/// <summary>The properties that each packet from a broker may have (MQTT 5, table 2-4), one bit per identifier.</summary>
internal static class PropertySets
{
    public const ulong Repeatable = 1UL << (int)PropertyId.UserProperty | 1UL << (int)PropertyId.SubscriptionIdentifier;

    /// <summary>PUBACK and SUBACK.</summary>
    public const ulong Acknowledgement = 1UL << (int)PropertyId.Reason | 1UL << (int)PropertyId.UserProperty;

    /// <summary>A broker must not send the session expiry (MQTT-3.14.2-2).</summary>
    public const ulong Disconnect = Acknowledgement | 1UL << (int)PropertyId.ServerReference;

    public const ulong Publish =
        1UL << (int)PropertyId.PayloadFormat | 1UL << (int)PropertyId.MessageExpiry | 1UL << (int)PropertyId.TopicAlias
        | 1UL << (int)PropertyId.ResponseTopic | 1UL << (int)PropertyId.CorrelationData | 1UL << (int)PropertyId.UserProperty
        | 1UL << (int)PropertyId.SubscriptionIdentifier | 1UL << (int)PropertyId.ContentType;

    public const ulong Connack =
        Disconnect | 1UL << (int)PropertyId.SessionExpiry | 1UL << (int)PropertyId.ReceiveMaximum | 1UL << (int)PropertyId.MaximumQualityOfService
        | 1UL << (int)PropertyId.RetainAvailable | 1UL << (int)PropertyId.MaximumPacketSize | 1UL << (int)PropertyId.AssignedClientId
        | 1UL << (int)PropertyId.TopicAliasMaximum | 1UL << (int)PropertyId.WildcardSubscriptionAvailable
        | 1UL << (int)PropertyId.SubscriptionIdentifierAvailable | 1UL << (int)PropertyId.SharedSubscriptionAvailable
        | 1UL << (int)PropertyId.ServerKeepAlive | 1UL << (int)PropertyId.ResponseInformation | 1UL << (int)PropertyId.AuthenticationMethod
        | 1UL << (int)PropertyId.AuthenticationData;
}
