using System.Collections.Immutable;

namespace BatchKit.Transports;

/// <summary>Reads the headers of a batch. Those that only say a kind are shared and cost nothing.</summary>
internal static class HeaderReader
{
    // An object's or array's own bytes, generously.
    private const int ObjectBytes = 64;
    private const int HandleBytes = 16;
    private const int PropertyBytes = 16;
    private const byte MoreThanKind = FrameFormat.KnownHeaderFlags & ~FrameFormat.KindMask;

    private static readonly MessageHeader Plain = new();

    /// <summary>Fills in the headers of the messages that have one; the others must be null before.</summary>
    public static void ReadAll(ref FrameCursor cursor, Span<MessageHeader?> headers)
    {
        var count = cursor.ReadNumber(1, headers.Length, "count of headers");
        var next = 0L;
        for (var read = 0L; read < count; read++)
        {
            next += cursor.ReadNumber(0, headers.Length - 1, "place of a header");
            if (next >= headers.Length)
                FrameCursor.Refuse("A header in the frame belongs to no message.");
            headers[(int)next++] = Read(ref cursor);
        }
    }

    private static MessageHeader Read(ref FrameCursor cursor)
    {
        var flags = cursor.ReadByte();
        var kind = (MessageKind)(flags & FrameFormat.KindMask);
        if ((flags & ~FrameFormat.KnownHeaderFlags) != 0 || kind > MessageKind.Control)
            FrameCursor.Refuse("A header in the frame has a flag or a kind that this version does not know.");
        if ((flags & MoreThanKind) == 0)
            return kind == MessageKind.Output ? Plain : kind == MessageKind.Prompt ? MessageHeader.Prompt : MessageHeader.Control;

        cursor.Spend(ObjectBytes);
        // The order of the members is the order on the wire: initialisers run as written.
        return new MessageHeader
        {
            Kind = kind,
            ExcludedConnections = Has(flags, FrameFormat.ExcludedFlag) ? ReadExcluded(ref cursor) : [],
            Key = Has(flags, FrameFormat.KeyFlag) ? cursor.ReadText() : null,
            ContentType = Has(flags, FrameFormat.ContentTypeFlag) ? cursor.ReadText() : null,
            Properties = Has(flags, FrameFormat.PropertiesFlag) ? ReadProperties(ref cursor) : [],
        };
    }

    private static bool Has(byte flags, byte flag) => (flags & flag) != 0;

    private static ImmutableArray<OutputHandle> ReadExcluded(ref FrameCursor cursor)
    {
        var count = cursor.ReadCount(leastBytesEach: 1, "excluded connections");
        cursor.Spend(ObjectBytes + ((long)HandleBytes * count));
        var excluded = ImmutableArray.CreateBuilder<OutputHandle>(count);
        for (var index = 0; index < count; index++)
            excluded.Add(OutputHandle.Connection(cursor.ReadNumber(1, long.MaxValue, "excluded connection")));
        return excluded.MoveToImmutable();
    }

    private static ImmutableArray<KeyValuePair<string, string>> ReadProperties(ref FrameCursor cursor)
    {
        var count = cursor.ReadCount(leastBytesEach: 2, "properties");
        cursor.Spend(ObjectBytes + ((long)PropertyBytes * count));
        var properties = ImmutableArray.CreateBuilder<KeyValuePair<string, string>>(count);
        for (var index = 0; index < count; index++)
            properties.Add(new KeyValuePair<string, string>(cursor.ReadText(), cursor.ReadText()));
        return properties.MoveToImmutable();
    }
}
