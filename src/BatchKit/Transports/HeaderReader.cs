using System.Collections.Immutable;

namespace BatchKit.Transports;

/// <summary>Reads the headers of one frame's batches. Headers that have only a kind, repeated headers and shared texts are shared objects; they cost memory once.</summary>
internal ref struct HeaderReader(byte version)
{
    // An object's or array's own bytes, generously.
    private const int ObjectBytes = 64;
    private const int HandleBytes = 16;
    private const int PropertyBytes = 16;

    private static readonly MessageHeader Plain = new();

    private readonly byte _unknownFlags = version == FrameFormat.FirstVersion ? unchecked((byte)~FrameFormat.FirstVersionHeaderFlags) : (byte)0;
    private readonly bool _shares = version > FrameFormat.FirstVersion;
    private NumberedValues<string> _texts = new(FrameFormat.MaxSharedTexts);
    private NumberedValues<MessageHeader> _headers = new(FrameFormat.MaxSharedHeaders);

    /// <summary>Fills in the headers of the messages that have one; the others must be null before.</summary>
    public void ReadAll(ref FrameCursor cursor, Span<MessageHeader?> headers)
    {
        var left = (int)cursor.ReadNumber(1, headers.Length, "count of headers");
        var next = 0L;
        while (left > 0)
        {
            next += cursor.ReadNumber(0, headers.Length - 1, "place of a header");
            if (next >= headers.Length)
                FrameCursor.Refuse("A header in the frame belongs to no message.");
            var header = Read(ref cursor, out var isRepeated);
            var count = isRepeated ? 1 + (int)cursor.ReadNumber(1, headers.Length - 1, "count of same headers") : 1;
            if (count > left || count > headers.Length - next)
                FrameCursor.Refuse("A repeated header in the frame belongs to no message.");
            headers.Slice((int)next, count).Fill(header);
            next += count;
            left -= count;
        }
    }

    public void Dispose()
    {
        _texts.Dispose();
        _headers.Dispose();
    }

    private MessageHeader Read(ref FrameCursor cursor, out bool isRepeated)
    {
        var flags = cursor.ReadByte();
        var extension = default(HeaderExtension);
        if (_shares && flags == FrameFormat.ExtendedHeader)
        {
            extension = ReadExtension(ref cursor);
            flags = cursor.ReadByte();
        }
        else if (_shares && (flags & FrameFormat.KindMask) == FrameFormat.SharedHeader)
        {
            isRepeated = false;
            return GetShared(flags >> 2);
        }

        var kind = (MessageKind)(flags & FrameFormat.KindMask);
        if ((flags & _unknownFlags) != 0 || kind > MessageKind.Control)
            FrameCursor.Refuse("A header in the frame has a flag or a kind that its version does not know.");
        isRepeated = Has(flags, FrameFormat.RepeatedFlag);
        if (!extension.IsPresent && (flags & FrameFormat.MoreThanKind) == 0)
            return kind == MessageKind.Output ? Plain : kind == MessageKind.Prompt ? MessageHeader.Prompt : MessageHeader.Control;

        cursor.Spend(ObjectBytes);
        // The order of the members is the order on the wire: initialisers run as written.
        var header = new MessageHeader
        {
            Kind = kind,
            ExcludedConnections = Has(flags, FrameFormat.ExcludedFlag) ? ReadExcluded(ref cursor) : [],
            Key = Has(flags, FrameFormat.KeyFlag) ? cursor.ReadText() : null,
            ContentType = Has(flags, FrameFormat.ContentTypeFlag) ? ReadSharedText(ref cursor) : null,
            Type = Has(flags, FrameFormat.TypeFlag) ? ReadSharedText(ref cursor) : null,
            ReplyTo = extension.ReplyTo,
            CorrelationData = extension.CorrelationData.IsDefault ? [] : extension.CorrelationData,
            IsRetained = extension.IsRetained,
            Properties = Has(flags, FrameFormat.PropertiesFlag) ? ReadProperties(ref cursor) : [],
        };
        if (_shares)
            Share(ref cursor, header);
        return header;
    }

    private HeaderExtension ReadExtension(ref FrameCursor cursor)
    {
        var flags = cursor.ReadByte();
        if (flags == 0 || (flags & ~FrameFormat.KnownExtensionFlags) != 0)
            FrameCursor.Refuse("A header in the frame has a flag that this version does not know.");
        return new HeaderExtension(
            IsPresent: true,
            Has(flags, FrameFormat.ReplyToFlag) ? ReadSharedText(ref cursor) : null,
            Has(flags, FrameFormat.CorrelationFlag) ? ReadCorrelation(ref cursor) : [],
            Has(flags, FrameFormat.RetainedFlag));
    }

    private static ImmutableArray<byte> ReadCorrelation(ref FrameCursor cursor)
    {
        var bytes = cursor.ReadBytes(cursor.ReadCount(leastBytesEach: 1, "bytes of correlation data"));
        if (bytes.Length > MessageHeader.MaxTextBytes)
            FrameCursor.Refuse($"Correlation data in the frame has more than {nameof(MessageHeader.MaxTextBytes)} ({MessageHeader.MaxTextBytes}) bytes.");
        cursor.Spend(ObjectBytes + bytes.Length);
        return [.. bytes];
    }

    private readonly MessageHeader GetShared(int number)
    {
        if (number < 1 || number > _headers.Count)
            FrameCursor.Refuse("A message in the frame has a shared header that the frame does not hold.");
        return _headers[number];
    }

    private void Share(ref FrameCursor cursor, MessageHeader header)
    {
        if (_headers.Count == 0)
            cursor.SpendRented(FrameFormat.MaxSharedHeaders, nint.Size);
        _headers.Add(header);
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

    private ImmutableArray<KeyValuePair<string, string>> ReadProperties(ref FrameCursor cursor)
    {
        var count = cursor.ReadCount(leastBytesEach: 2, "properties");
        cursor.Spend(ObjectBytes + ((long)PropertyBytes * count));
        var properties = ImmutableArray.CreateBuilder<KeyValuePair<string, string>>(count);
        for (var index = 0; index < count; index++)
            properties.Add(new KeyValuePair<string, string>(ReadSharedText(ref cursor), cursor.ReadText()));
        return properties.MoveToImmutable();
    }

    private string ReadSharedText(ref FrameCursor cursor)
    {
        if (!_shares)
            return cursor.ReadText();
        var number = (int)cursor.ReadNumber(0, _texts.Count, "number of a shared text");
        if (number > 0)
            return _texts[number];
        var text = cursor.ReadText();
        if (text.Length > FrameFormat.MaxSharedTextLength)
            return text;
        if (_texts.Count == 0)
            cursor.SpendRented(FrameFormat.MaxSharedTexts, nint.Size);
        _texts.Add(text);
        return text;
    }
}

/// <summary>The parts of a header that few messages have.</summary>
internal readonly record struct HeaderExtension(bool IsPresent, string? ReplyTo, ImmutableArray<byte> CorrelationData, bool IsRetained);
