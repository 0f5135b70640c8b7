using BatchKit.Transports;

namespace BatchKit.SignalR.Records;

/// <summary>Consecutive records of a batch for the same clients. What they say is joined once for each protocol, and shared by all clients that speak it.</summary>
/// <remarks>Used by one send, while the batch's memory is valid; what it joined outlives the send.</remarks>
internal sealed class RecordRun(MessageBatch batch, int first, int end)
{
    private EncodedRun[] _encoded = [];

    /// <summary>The messages for the clients of a protocol, which stay valid until <see cref="Release"/> for who does not hold them.</summary>
    /// <param name="protocol">The protocol's name.</param>
    /// <param name="utf8">The same in UTF-8.</param>
    /// <param name="missing">How many records are left out because their server did not have the protocol.</param>
    public EncodedRun For(string protocol, ReadOnlySpan<byte> utf8, out int missing)
    {
        var encoded = GetOrJoin(protocol, utf8);
        missing = end - first - encoded.Count;
        return encoded;
    }

    /// <summary>The send has queued them for all clients.</summary>
    public void Release()
    {
        foreach (var encoded in _encoded)
            encoded.Release();
    }

    private EncodedRun GetOrJoin(string protocol, ReadOnlySpan<byte> utf8)
    {
        foreach (var encoded in _encoded)
        {
            if (encoded.Protocol == protocol)
                return encoded;
        }

        var joined = Join(protocol, utf8);
        _encoded = [.. _encoded, joined];
        return joined;
    }

    private EncodedRun Join(string protocol, ReadOnlySpan<byte> utf8)
    {
        // The messages are shorter than their records.
        var joined = EncodedRun.Rent(batch.MessageEnds[end - 1] - (first == 0 ? 0 : batch.MessageEnds[first - 1]));
        var ends = new int[end - first];
        var (length, count) = (0, 0);
        for (var index = first; index < end; index++)
        {
            if (!TryFind(index, utf8, out var message))
                continue;
            message.CopyTo(joined.AsSpan(length));
            ends[count++] = length += message.Length;
        }

        return new EncodedRun(protocol, joined, length, ends, count);
    }

    private bool TryFind(int index, ReadOnlySpan<byte> protocol, out ReadOnlySpan<byte> message)
    {
        var start = index == 0 ? 0 : batch.MessageEnds[index - 1];
        var record = new RecordReader(batch.Payload.Span[start..batch.MessageEnds[index]]);
        if (record.Kind == RecordKind.Invoke)
        {
            _ = record.Field();
            _ = record.Field();
        }
        else
        {
            _ = record.SkipTexts();
        }

        return record.TryFindMessage(protocol, out message);
    }
}
