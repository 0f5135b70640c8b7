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
