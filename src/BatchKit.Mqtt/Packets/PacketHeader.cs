namespace BatchKit.Mqtt.Packets;

/// <summary>What every packet begins with (MQTT 5, section 2.1).</summary>
/// <param name="Type">Which packet it is.</param>
/// <param name="Flags">The four bits beside the type.</param>
/// <param name="BodyBytes">How many bytes follow the header.</param>
internal readonly record struct PacketHeader(PacketType Type, byte Flags, int BodyBytes)
{
    /// <summary>Reads a header and checks its flags.</summary>
    /// <param name="input">What has arrived so far; from the packet's first byte.</param>
    /// <param name="maxPacketBytes">The largest packet that is taken, header included.</param>
    /// <param name="header">The header.</param>
    /// <param name="headerBytes">How many bytes it took.</param>
    /// <returns>False when more must arrive first.</returns>
    /// <exception cref="MqttProtocolException">It is malformed, or the packet too large.</exception>
    public static bool TryRead(ReadOnlySpan<byte> input, int maxPacketBytes, out PacketHeader header, out int headerBytes)
    {
        header = default;
        headerBytes = 0;
        if (input.IsEmpty)
            return false;
        var type = (PacketType)(input[0] >> 4);
        var flags = (byte)(input[0] & 0xF);
        CheckFlags(type, flags);
        if (!VariableByteInteger.TryRead(input[1..], out var bodyBytes, out var lengthBytes))
            return false;
        if (bodyBytes > maxPacketBytes - 1 - lengthBytes)
            throw new MqttProtocolException(MqttReasonCode.PacketTooLarge, $"A packet has {1 + lengthBytes + bodyBytes} bytes, where {maxPacketBytes} are the most that is taken.");
        if (bodyBytes > 0 && type is PacketType.Pingreq or PacketType.Pingresp)
            throw MqttProtocolException.Malformed("A ping has a body.");
        header = new PacketHeader(type, flags, bodyBytes);
        headerBytes = 1 + lengthBytes;
        return true;
    }

    // Section 2.1.3.
    private static void CheckFlags(PacketType type, byte flags)
    {
        if (type == PacketType.Publish)
        {
            if ((flags & PublishFlags.QualityOfServiceMask) == PublishFlags.QualityOfServiceMask)
                throw MqttProtocolException.Malformed("A PUBLISH asks for QoS 3.");
            if ((flags & PublishFlags.QualityOfServiceMask) == 0 && (flags & PublishFlags.Duplicate) != 0)
                throw MqttProtocolException.Malformed("A PUBLISH of QoS 0 says that it is sent again.");
            return;
        }

        if (type < PacketType.Connect)
            throw MqttProtocolException.Malformed("A packet's type is 0.");
        var expected = type is PacketType.Pubrel or PacketType.Subscribe or PacketType.Unsubscribe ? 0b0010 : 0;
        if (flags != expected)
            throw MqttProtocolException.Malformed("A packet's flags are not those of its type.");
    }
}
