namespace BatchKit.Mqtt.Packets;

/// <summary>The fixed header of a packet (MQTT 5, section 2.1).</summary>
/// <param name="Type">The packet type.</param>
/// <param name="Flags">The four bits after the type.</param>
/// <param name="BodyBytes">The number of bytes after the header.</param>
/// <param name="OmittedBytes">The number of further bytes that belong to the packet and are not kept, because it is too large.</param>
internal readonly record struct PacketHeader(PacketType Type, byte Flags, int BodyBytes, int OmittedBytes = 0)
{
    /// <summary>Whether the packet as it was sent is larger than the limit.</summary>
    public bool IsTooLarge { get; private init; }

    /// <summary>Reads a header and checks its flags, except for those of a PUBLISH.</summary>
    /// <param name="input">The bytes that have arrived so far, beginning with the packet's first byte.</param>
    /// <param name="maxPacketBytes">The largest packet that the broker was told to send, including its header.</param>
    /// <param name="header">The header.</param>
    /// <param name="headerBytes">The size of the header.</param>
    /// <param name="allowsLargePublish">True reads the header of a PUBLISH that is too large; <see cref="PublishPacket.TryOmitPayload"/> shortens it.</param>
    /// <returns>False when more must arrive first.</returns>
    /// <exception cref="MqttProtocolException">The header is malformed, or the packet is too large.</exception>
    public static bool TryRead(ReadOnlySpan<byte> input, int maxPacketBytes, out PacketHeader header, out int headerBytes, bool allowsLargePublish = false)
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
        // Mosquitto does not count a packet's first byte, so it sends one that is a byte larger. To refuse it would end this connection and each one after it.
        var isTooLarge = bodyBytes > maxPacketBytes - lengthBytes;
        if (isTooLarge && !(allowsLargePublish && type == PacketType.Publish))
            throw new MqttProtocolException(MqttReasonCode.PacketTooLarge, $"A packet has {1 + lengthBytes + bodyBytes} bytes, more than {nameof(MqttOptions)}.{nameof(MqttOptions.MaxPacketBytes)} ({maxPacketBytes}).");
        if (bodyBytes > 0 && type is PacketType.Pingreq or PacketType.Pingresp)
            throw MqttProtocolException.Malformed("A ping has a body.");
        header = new PacketHeader(type, flags, bodyBytes) { IsTooLarge = isTooLarge };
        headerBytes = 1 + lengthBytes;
        return true;
    }

    // Section 2.1.3. PublishPacket checks those of a PUBLISH, so that one with bad flags can be skipped.
    private static void CheckFlags(PacketType type, byte flags)
    {
        if (type == PacketType.Publish)
            return;
        if (type < PacketType.Connect)
            throw MqttProtocolException.Malformed("A packet's type is 0.");
        var expected = type is PacketType.Pubrel or PacketType.Subscribe or PacketType.Unsubscribe ? 0b0010 : 0;
        if (flags != expected)
            throw MqttProtocolException.Malformed("A packet's flags are not valid for its type.");
    }
}

/// <summary>The types of control packets (MQTT 5, section 2.1.2).</summary>
internal enum PacketType : byte
{
    Connect = 1,
    Connack = 2,
    Publish = 3,
    Puback = 4,
    Pubrec = 5,
    Pubrel = 6,
    Pubcomp = 7,
    Subscribe = 8,
    Suback = 9,
    Unsubscribe = 10,
    Unsuback = 11,
    Pingreq = 12,
    Pingresp = 13,
    Disconnect = 14,
    Auth = 15,
}

/// <summary>Reads and writes numbers of one to four bytes (MQTT 5, section 1.5.5).</summary>
internal static class VariableByteInteger
{
    public const int MaxValue = 268_435_455;

    private const int MaxBytes = 4;

    public static int Measure(long value) => value switch
    {
        < 1 << 7 => 1,
        < 1 << 14 => 2,
        < 1 << 21 => 3,
        _ => MaxBytes,
    };

    /// <summary>Writes a number up to <see cref="MaxValue"/>.</summary>
    /// <returns>The number of bytes written.</returns>
    public static int Write(Span<byte> target, int value)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(value);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(value, MaxValue);
        var place = 0;
        while (value >= 0x80)
        {
            target[place++] = (byte)(value | 0x80);
            value >>= 7;
        }

        target[place++] = (byte)value;
        return place;
    }

    /// <summary>Reads a number.</summary>
    /// <returns>False when more must arrive first.</returns>
    /// <exception cref="MqttProtocolException">The number has more than four bytes, or more bytes than its value needs.</exception>
    public static bool TryRead(ReadOnlySpan<byte> source, out int value, out int bytes)
    {
        value = 0;
        for (bytes = 0; bytes < source.Length;)
        {
            var digit = source[bytes];
            value |= (digit & 0x7F) << (7 * bytes);
            bytes++;
            if (digit < 0x80)
            {
                // MQTT-1.5.5-1; in 3.1.1 it follows from the table of sizes (section 2.2.3).
                return digit != 0 || bytes == 1 ? true : throw MqttProtocolException.Malformed("A length has more bytes than its value needs.");
            }

            if (bytes == MaxBytes)
                throw MqttProtocolException.Malformed("A length has more than four bytes.");
        }

        return false;
    }
}
