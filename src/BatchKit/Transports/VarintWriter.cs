using System.Text;

namespace BatchKit.Transports;

/// <summary>Writes numbers and texts of a frame into a span that has room for them, and gives the position behind.</summary>
internal static class VarintWriter
{
    public const byte MaxOneByteValue = 0x7F;

    public static int SizeOf(uint value)
    {
        var size = 1;
        while ((value >>= 7) != 0)
            size++;
        return size;
    }

    // Three bytes are the most that UTF-8 needs for a UTF-16 unit.
    public static long MaxTextBytes(string text) => FrameFormat.MaxVarint32Bytes + (3L * text.Length);

    public static int Write(Span<byte> target, int position, ulong value)
    {
        while (value > MaxOneByteValue)
        {
            target[position++] = (byte)(value | 0x80);
            value >>= 7;
        }

        target[position++] = (byte)value;
        return position;
    }

    public static int WriteText(Span<byte> target, int position, string text)
    {
        var bytes = Encoding.UTF8.GetByteCount(text);
        if (bytes > MessageHeader.MaxTextBytes)
            throw new ArgumentException($"A text of a frame has at most {nameof(MessageHeader.MaxTextBytes)} ({MessageHeader.MaxTextBytes}) bytes.", nameof(text));
        position = Write(target, position, (uint)bytes);
        return position + Encoding.UTF8.GetBytes(text, target[position..]);
    }
}
