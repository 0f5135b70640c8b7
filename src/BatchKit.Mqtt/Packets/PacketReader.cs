using System.Buffers.Binary;

namespace BatchKit.Mqtt.Packets;

/// <summary>Takes a body's parts off its front (MQTT 5, section 1.5). What is not there is a malformed packet.</summary>
internal ref struct PacketReader(ReadOnlySpan<byte> body)
{
    public ReadOnlySpan<byte> Rest { get; private set; } = body;

    public byte ReadByte() => Take(1)[0];

    public ushort ReadTwoBytes() => BinaryPrimitives.ReadUInt16BigEndian(Take(sizeof(ushort)));

    public uint ReadFourBytes() => BinaryPrimitives.ReadUInt32BigEndian(Take(sizeof(uint)));

    public int ReadLength()
    {
        if (!VariableByteInteger.TryRead(Rest, out var value, out var bytes))
            throw MqttProtocolException.Malformed("A packet ends within a length.");
        Take(bytes);
        return value;
    }

    public ReadOnlySpan<byte> ReadBinary() => Take(ReadTwoBytes());

    /// <summary>A text in UTF-8, checked.</summary>
    public ReadOnlySpan<byte> ReadText()
    {
        var text = ReadBinary();
        return PacketText.IsValid(text) ? text : throw MqttProtocolException.Malformed("A text is not UTF-8, or holds a NUL.");
    }

    public ushort ReadPacketId() => ReadTwoBytes() is var id and not 0 ? id : throw MqttProtocolException.Forbidden("A packet id is 0.");

    /// <summary>The properties with the length before them (MQTT 5, section 2.2.2).</summary>
    public ReadOnlySpan<byte> ReadProperties() => Take(ReadLength());

    public readonly void RequireEnd()
    {
        if (!Rest.IsEmpty)
            throw MqttProtocolException.Malformed("A packet has more bytes than its parts.");
    }

    private ReadOnlySpan<byte> Take(int bytes)
    {
        if (bytes > Rest.Length)
            throw MqttProtocolException.Malformed("A packet is too short for its parts.");
        var taken = Rest[..bytes];
        Rest = Rest[bytes..];
        return taken;
    }
}

/// <summary>Which reason codes are known (MQTT 5, section 2.4).</summary>
internal static class ReasonCodes
{
    private const int FirstFailure = 0x80;

    /// <summary>Reads a code. A success must be one of the packet's own; of failures any is taken that the protocol has.</summary>
    /// <remarks>
    /// Section 3.4.2.1 and its likes list failures for each packet too. A broker that strays there has still said no: to close the connection for it would send the message
    /// again, and get the same answer, for ever.
    /// </remarks>
    /// <exception cref="MqttProtocolException">The code is unknown.</exception>
    public static MqttReasonCode Read(byte value, params ReadOnlySpan<MqttReasonCode> successes)
    {
        var code = (MqttReasonCode)value;
        var isKnown = value >= FirstFailure ? Enum.IsDefined(code) : successes.Contains(code);
        return isKnown ? code : throw MqttProtocolException.Forbidden($"A reason code, 0x{value:X2}, is not one of its packet.");
    }
}

/// <summary>The other side sent what the protocol forbids; the connection is closed with the reason code. Its message holds nothing of what was sent.</summary>
internal sealed class MqttProtocolException(MqttReasonCode reasonCode, string message) : Exception(message)
{
    public MqttReasonCode ReasonCode { get; } = reasonCode;

    /// <summary>It can't be parsed (MQTT 5, section 4.13).</summary>
    public static MqttProtocolException Malformed(string message) => new(MqttReasonCode.MalformedPacket, message);

    /// <summary>It was parsed, and says what is not allowed (MQTT 5, section 4.13).</summary>
    public static MqttProtocolException Forbidden(string message) => new(MqttReasonCode.ProtocolError, message);
}
