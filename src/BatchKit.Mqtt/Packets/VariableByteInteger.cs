namespace BatchKit.Mqtt.Packets;

/// <summary>Numbers of one to four bytes (MQTT 5, section 1.5.5).</summary>
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
    /// <returns>How many bytes it took.</returns>
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
    /// <exception cref="MqttProtocolException">It goes on after four bytes, or takes more than it needs.</exception>
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
                // MQTT-1.5.5-1; 3.1.1 says the same by its table of sizes (section 2.2.3).
                return digit != 0 || bytes == 1 ? true : throw MqttProtocolException.Malformed("A length takes more bytes than it needs.");
            }

            if (bytes == MaxBytes)
                throw MqttProtocolException.Malformed("A length has more than four bytes.");
        }

        return false;
    }
}
