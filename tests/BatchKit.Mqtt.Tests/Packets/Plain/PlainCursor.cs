using System.Text;

namespace BatchKit.Mqtt.Tests.Packets.Plain;

/// <summary>Reads the specification's data types, byte by byte; remembers that something was wrong.</summary>
internal sealed class PlainCursor(byte[] bytes, int start, int end)
{
    private int _place = start;

    public bool Failed { get; private set; }

    public int Left => end - _place;

    public bool IsAtEnd => Failed || Left == 0;

    public void Fail() => Failed = true;

    public void FailIf(bool isWrong) => Failed |= isWrong;

    public int Byte() => (int)Number(1);

    public int TwoBytes() => (int)Number(2);

    public long FourBytes() => Number(4);

    public int VariableBytes()
    {
        var value = 0;
        for (int factor = 1, count = 1; count <= 4; count++, factor *= 128)
        {
            var digit = Byte();
            value += digit % 128 * factor;
            if (digit >= 128)
                continue;
            FailIf(digit == 0 && count > 1);
            return value;
        }

        Fail();
        return 0;
    }

    public byte[] Take(int count)
    {
        if (Failed || count > Left)
        {
            Fail();
            return [];
        }

        _place += count;
        return bytes[(_place - count).._place];
    }

    /// <summary>The next bytes, to be read apart.</summary>
    public PlainCursor Part(int count)
    {
        Take(count);
        return Failed ? new PlainCursor(bytes, 0, 0) : new PlainCursor(bytes, _place - count, _place);
    }

    public byte[] Binary() => Take(TwoBytes());

    public string Text()
    {
        var text = Decode(Binary());
        FailIf(text is null);
        return text ?? "";
    }

    private static string? Decode(byte[] utf8)
    {
        var text = new StringBuilder();
        for (var place = 0; place < utf8.Length;)
        {
            var first = utf8[place];
            var (more, smallest) = first switch
            {
                < 0x80 => (0, 1),
                >= 0xC0 and < 0xE0 => (1, 0x80),
                >= 0xE0 and < 0xF0 => (2, 0x800),
                >= 0xF0 and < 0xF8 => (3, 0x10000),
                _ => (-1, 0),
            };
            if (more < 0 || place + more >= utf8.Length)
                return null;
            var point = more == 0 ? first : first & (0x3F >> more);
            foreach (var next in utf8.AsSpan(place + 1, more))
            {
                if (next is < 0x80 or >= 0xC0)
                    return null;
                point = (point * 64) + (next - 0x80);
            }

            if (point < smallest || point is (>= 0xD800 and <= 0xDFFF) or > 0x10FFFF)
                return null;
            text.Append(char.ConvertFromUtf32(point));
            place += 1 + more;
        }

        return text.ToString();
    }

    private long Number(int width)
    {
        var number = 0L;
        foreach (var digit in Take(width))
            number = (number * 256) + digit;
        return number;
    }
}
