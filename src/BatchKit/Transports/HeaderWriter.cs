using System.Collections.Immutable;

namespace BatchKit.Transports;

/// <summary>Writes the headers of one frame's batches. Only messages that have a header take bytes for it; what repeats is written once.</summary>
internal ref struct HeaderWriter
{
    private NumberedValues<string> _texts = new(FrameFormat.MaxSharedTexts);
    private NumberedValues<MessageHeader> _headers = new(FrameFormat.MaxSharedHeaders);

    public HeaderWriter()
    {
    }

    public int WriteAll(Span<byte> target, int position, ReadOnlySpan<MessageHeader?> headers)
    {
        position = VarintWriter.Write(target, position, (uint)(headers.Length - headers.Count((MessageHeader?)null)));
        var gap = 0U;
        for (var index = 0; index < headers.Length;)
        {
            if (headers[index++] is not { } header)
            {
                gap++;
                continue;
            }

            position = VarintWriter.Write(target, position, gap);
            gap = 0;
            if (FindShared(header) is var number && number > 0)
            {
                target[position++] = (byte)((number << 2) | FrameFormat.SharedHeader);
                continue;
            }

            var repeats = CountRepeats(headers[index..], header);
            position = WriteHeader(target, position, header, repeats);
            index += repeats;
        }

        return position;
    }

    public void Dispose()
    {
        _texts.Dispose();
        _headers.Dispose();
    }

    private readonly int FindShared(MessageHeader header)
    {
        if (_headers.Find(header) is var number && number > 0)
            return number;
        // Only a header without individual parts is likely to equal an earlier one, so only such a header is compared with each.
        if (header.Type is null || header.Key is not null || header.IsExtended || !header.ExcludedConnections.IsDefaultOrEmpty || !header.Properties.IsDefaultOrEmpty)
            return 0;
        var all = _headers.All;
        for (var index = 0; index < all.Length; index++)
        {
            if (IsSame(all[index], header))
                return index + 1;
        }

        return 0;
    }

    private static int CountRepeats(ReadOnlySpan<MessageHeader?> headers, MessageHeader header)
    {
        var count = 0;
        while (count < headers.Length && IsSame(headers[count], header))
            count++;
        return count;
    }

    private static bool IsSame(MessageHeader? header, MessageHeader other) =>
        header == other
        || (header is not null
            && header.Kind == other.Kind
            && header.Type == other.Type
            && header.ContentType == other.ContentType
            && header.Key == other.Key
            && header.IsExtended == other.IsExtended
            && (!header.IsExtended || IsExtensionSame(header, other))
            && header.ExcludedConnections.AsSpan().SequenceEqual(other.ExcludedConnections.AsSpan())
            && AreSame(header.Properties.AsSpan(), other.Properties.AsSpan()));

    private static bool IsExtensionSame(MessageHeader header, MessageHeader other) =>
        header.ReplyTo == other.ReplyTo && header.IsRetained == other.IsRetained && header.CorrelationData.AsSpan().SequenceEqual(other.CorrelationData.AsSpan());

    private static bool AreSame(ReadOnlySpan<KeyValuePair<string, string>> properties, ReadOnlySpan<KeyValuePair<string, string>> others)
    {
        if (properties.Length != others.Length)
            return false;
        for (var index = 0; index < properties.Length; index++)
        {
            if (properties[index].Key != others[index].Key || properties[index].Value != others[index].Value)
                return false;
        }

        return true;
    }

    private int WriteHeader(Span<byte> target, int position, MessageHeader header, int repeats)
    {
        if (header.IsExtended)
            position = WriteExtension(target, position, header);
        var flags = FlagsOf(header, repeats);
        target[position++] = flags;
        if (header.IsExtended || (flags & FrameFormat.MoreThanKind) != 0)
            _headers.Add(header);
        if (!header.ExcludedConnections.IsDefaultOrEmpty)
            position = WriteExcluded(target, position, header.ExcludedConnections);
        if (header.Key is not null)
            position = VarintWriter.WriteText(target, position, header.Key);
        if (header.ContentType is not null)
            position = WriteSharedText(target, position, header.ContentType);
        if (header.Type is not null)
            position = WriteSharedText(target, position, header.Type);
        if (!header.Properties.IsDefaultOrEmpty)
            position = WriteProperties(target, position, header.Properties);
        return repeats > 0 ? VarintWriter.Write(target, position, (uint)repeats) : position;
    }

    private int WriteExtension(Span<byte> target, int position, MessageHeader header)
    {
        var correlation = header.CorrelationData.AsSpan();
        target[position++] = FrameFormat.ExtendedHeader;
        target[position++] = (byte)(
            (header.ReplyTo is null ? 0 : FrameFormat.ReplyToFlag)
            | (correlation.IsEmpty ? 0 : FrameFormat.CorrelationFlag)
            | (header.IsRetained ? FrameFormat.RetainedFlag : 0));
        if (header.ReplyTo is not null)
            position = WriteSharedText(target, position, header.ReplyTo);
        if (correlation.IsEmpty)
            return position;
        position = VarintWriter.Write(target, position, (uint)correlation.Length);
        correlation.CopyTo(target[position..]);
        return position + correlation.Length;
    }

    private static byte FlagsOf(MessageHeader header, int repeats) => (byte)(
        (int)header.Kind
        | (header.ExcludedConnections.IsDefaultOrEmpty ? 0 : FrameFormat.ExcludedFlag)
        | (header.Key is null ? 0 : FrameFormat.KeyFlag)
        | (header.ContentType is null ? 0 : FrameFormat.ContentTypeFlag)
        | (header.Type is null ? 0 : FrameFormat.TypeFlag)
        | (header.Properties.IsDefaultOrEmpty ? 0 : FrameFormat.PropertiesFlag)
        | (repeats == 0 ? 0 : FrameFormat.RepeatedFlag));

    // Only connections can be excluded, so another handle in the list excludes nothing and is left out.
    private static int WriteExcluded(Span<byte> target, int position, ImmutableArray<OutputHandle> excluded)
    {
        var connections = 0U;
        foreach (var handle in excluded)
            connections += handle.IsConnection ? 1U : 0U;
        position = VarintWriter.Write(target, position, connections);
        foreach (var handle in excluded)
        {
            if (handle.IsConnection)
                position = VarintWriter.Write(target, position, (ulong)handle.Number);
        }

        return position;
    }

    private int WriteProperties(Span<byte> target, int position, ImmutableArray<KeyValuePair<string, string>> properties)
    {
        position = VarintWriter.Write(target, position, (uint)properties.Length);
        foreach (var (name, value) in properties)
        {
            position = WriteSharedText(target, position, name);
            position = VarintWriter.WriteText(target, position, value);
        }

        return position;
    }

    private int WriteSharedText(Span<byte> target, int position, string text)
    {
        var number = _texts.Find(text);
        if (number == 0)
            number = _texts.All.IndexOf(text) + 1;
        position = VarintWriter.Write(target, position, (uint)number);
        if (number > 0)
            return position;
        if (text.Length <= FrameFormat.MaxSharedTextLength)
            _texts.Add(text);
        return VarintWriter.WriteText(target, position, text);
    }
}
