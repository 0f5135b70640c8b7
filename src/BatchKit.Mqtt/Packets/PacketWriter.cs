using System.Buffers.Binary;

namespace BatchKit.Mqtt.Packets;

/// <summary>Writes the parts of a packet one after the other (MQTT 5, section 1.5) into memory that is large enough.</summary>
internal ref struct PacketWriter(Span<byte> target)
{
    private readonly Span<byte> _target = target;

    public int Length { get; private set; }

    public void WriteHeader(PacketType type, int flags, int bodyBytes)
    {
        WriteByte((byte)((int)type << 4 | flags));
        WriteLength(bodyBytes);
    }

    public void WriteByte(byte value) => _target[Length++] = value;

    public void WriteTwoBytes(ushort value)
    {
        BinaryPrimitives.WriteUInt16BigEndian(_target[Length..], value);
        Length += sizeof(ushort);
    }

    public void WriteFourBytes(uint value)
    {
        BinaryPrimitives.WriteUInt32BigEndian(_target[Length..], value);
        Length += sizeof(uint);
    }

    public void WriteLength(int value) => Length += VariableByteInteger.Write(_target[Length..], value);

    /// <summary>Writes binary data after its length prefix.</summary>
    /// <exception cref="MqttProtocolException">The value is longer than 65,535 bytes.</exception>
    public void WriteBinary(ReadOnlySpan<byte> bytes)
    {
        WriteTwoBytes(CheckLength(bytes.Length));
        WriteBytes(bytes);
    }

    public void WriteBytes(ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(_target[Length..]);
        Length += bytes.Length;
    }

    /// <summary>Writes a text after its length prefix.</summary>
    /// <exception cref="MqttProtocolException">The value is longer than 65,535 bytes.</exception>
    /// <exception cref="ArgumentException">The text is not valid UTF-16.</exception>
    public void WriteText(string text)
    {
        var bytes = PacketText.Strict.GetBytes(text, _target[(Length + sizeof(ushort))..]);
        WriteTwoBytes(CheckLength(bytes));
        Length += bytes;
    }

    private static ushort CheckLength(int bytes) =>
        bytes <= PacketText.MaxBytes ? (ushort)bytes : throw MqttProtocolException.Malformed($"A text or data has more than {PacketText.MaxBytes} bytes.");
}
