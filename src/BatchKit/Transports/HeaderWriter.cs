using System.Collections.Immutable;

namespace BatchKit.Transports;

/// <summary>Writes the headers of a batch: only the messages that have one take room.</summary>
internal static class HeaderWriter
{
    public static int WriteAll(Span<byte> target, int position, ReadOnlySpan<MessageHeader?> headers)
    {
        position = VarintWriter.Write(target, position, (uint)(headers.Length - headers.Count((MessageHeader?)null)));
        var gap = 0U;
        foreach (var header in headers)
        {
            if (header is null)
            {
                gap++;
                continue;
            }

            position = VarintWriter.Write(target, position, gap);
            position = WriteHeader(target, position, header);
            gap = 0;
        }

        return position;
    }

    private static int WriteHeader(Span<byte> target, int position, MessageHeader header)
    {
        var flagsAt = position++;
        var flags = (byte)header.Kind;
        if (!header.ExcludedConnections.IsDefaultOrEmpty)
        {
            flags |= FrameFormat.ExcludedFlag;
            position = WriteExcluded(target, position, header.ExcludedConnections);
        }

        if (header.Key is not null)
        {
            flags |= FrameFormat.KeyFlag;
            position = VarintWriter.WriteText(target, position, header.Key);
        }

        if (header.ContentType is not null)
        {
            flags |= FrameFormat.ContentTypeFlag;
            position = VarintWriter.WriteText(target, position, header.ContentType);
        }

        if (!header.Properties.IsDefaultOrEmpty)
        {
            flags |= FrameFormat.PropertiesFlag;
            position = WriteProperties(target, position, header.Properties);
        }

        target[flagsAt] = flags;
        return position;
    }

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

    private static int WriteProperties(Span<byte> target, int position, ImmutableArray<KeyValuePair<string, string>> properties)
    {
        position = VarintWriter.Write(target, position, (uint)properties.Length);
        foreach (var (name, value) in properties)
        {
            position = VarintWriter.WriteText(target, position, name);
            position = VarintWriter.WriteText(target, position, value);
        }

        return position;
    }
}
