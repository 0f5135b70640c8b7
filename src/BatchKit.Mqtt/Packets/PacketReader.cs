using System.Buffers.Binary;

namespace BatchKit.Mqtt.Packets;

/// <summary>Reads the parts of a packet's body one after the other (MQTT 5, section 1.5). A missing part is a malformed packet.</summary>
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

    /// <summary>A text; it is valid UTF-8.</summary>
    public ReadOnlySpan<byte> ReadText()
    {
        var text = ReadBinary();
        return PacketText.IsValid(text) ? text : throw MqttProtocolException.Malformed("A text is not valid UTF-8, or holds a NUL.");
    }

    public ushort ReadPacketId() => ReadTwoBytes() is var id and not 0 ? id : throw MqttProtocolException.Forbidden("A packet id is 0.");

    /// <summary>The properties after their length prefix (MQTT 5, section 2.2.2).</summary>
    public ReadOnlySpan<byte> ReadProperties() => Take(ReadLength());

    public readonly void RequireEnd()
    {
        if (!Rest.IsEmpty)
            throw MqttProtocolException.Malformed("A packet has surplus bytes at its end.");
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

/// <summary>Validates reason codes (MQTT 5, section 2.4).</summary>
internal static class ReasonCodes
{
    private const int FirstFailure = 0x80;

    /// <summary>Reads a code. A success must be one of the packet's own codes; a failure may be any code of the protocol.</summary>
    /// <remarks>
    /// Section 3.4.2.1 and others also list the failures of each packet. A broker that uses another failure code has still refused the message. If this client closed the
    /// connection, it would send the message again and get the same answer, again and again.
    /// </remarks>
    /// <exception cref="MqttProtocolException">The code is unknown.</exception>
    public static MqttReasonCode Read(byte value, params ReadOnlySpan<MqttReasonCode> successes)
    {
        var code = (MqttReasonCode)value;
        var isKnown = value >= FirstFailure ? Enum.IsDefined(code) : successes.Contains(code);
        return isKnown ? code : throw MqttProtocolException.Forbidden($"The reason code 0x{value:X2} is not valid in its packet.");
    }
}

/// <summary>The broker violated the protocol; the connection is closed with the reason code. The message contains nothing that the broker sent.</summary>
internal sealed class MqttProtocolException(MqttReasonCode reasonCode, string message) : Exception(message)
{
    public MqttReasonCode ReasonCode { get; } = reasonCode;

    /// <summary>A packet can't be parsed (MQTT 5, section 4.13).</summary>
    public static MqttProtocolException Malformed(string message) => new(MqttReasonCode.MalformedPacket, message);

    /// <summary>An AUTH (MQTT 5, section 4.12), which no CONNECT of this client asks for.</summary>
    public static MqttProtocolException EnhancedAuthentication() => new(MqttReasonCode.BadAuthenticationMethod,
        $"It asks for enhanced authentication (AUTH), which this package does not support: let it accept {nameof(MqttOptions.UserName)} and {nameof(MqttOptions.Password)}, or a client certificate.");

    /// <summary>A packet is well-formed but not allowed (MQTT 5, section 4.13).</summary>
    public static MqttProtocolException Forbidden(string message) => new(MqttReasonCode.ProtocolError, message);
}
