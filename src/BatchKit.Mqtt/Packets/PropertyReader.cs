namespace BatchKit.Mqtt.Packets;

/// <summary>Reads a packet's properties one by one: those it may have, each once where the protocol says so, with values in their range.</summary>
/// <param name="properties">The properties without the length before them.</param>
/// <param name="allowed">One of <see cref="PropertySets"/>.</param>
internal ref struct PropertyReader(ReadOnlySpan<byte> properties, ulong allowed)
{
    private PacketReader _reader = new(properties);
    private ulong _seen;

    /// <summary>Reads the next property.</summary>
    /// <returns>False when there is none.</returns>
    /// <exception cref="MqttProtocolException">It is malformed or not allowed here.</exception>
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
                // Not checked further: brokers pass on what its publisher wrote, and to close the connection would have it sent again, for ever.
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
        // Identifiers are variable byte integers, but every one of them has a single byte.
        var id = _reader.ReadByte();
        var bit = id < 64 ? 1UL << id : 0;
        if ((bit & allowed) == 0)
            throw MqttProtocolException.Malformed("A property is unknown, or not one of its packet.");
        if ((bit & _seen & ~PropertySets.Repeatable) != 0)
            throw MqttProtocolException.Forbidden("A property is there twice.");
        _seen |= bit;
        return (PropertyId)id;
    }

    private uint ReadBit() => _reader.ReadByte() is var value and <= 1 ? value : throw MqttProtocolException.Forbidden("A property that is 0 or 1 has another value.");

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
