using BatchKit.Transports;

namespace BatchKit.SignalR.Records;

/// <summary>Consecutive records of a batch for the same clients. What they say is joined once for each protocol, and shared by all clients that speak it.</summary>
/// <remarks>Used by one send, while the batch's memory is valid; what it joined outlives the send.</remarks>
internal sealed class RecordRun(MessageBatch batch, int first, int end)
{
    private EncodedRun[] _encoded = [];

    /// <summary>The messages for the clients of a protocol, which stay valid until <see cref="Release"/> for who does not hold them.</summary>
    /// <param name="protocol">The protocol.</param>
    /// <param name="missing">How many records are left out because their server did not have the protocol.</param>
    public EncodedRun For(NamedProtocol protocol, out int missing)
    {
        var encoded = GetOrJoin(protocol);
        missing = end - first - encoded.Count;
        return encoded;
    }

    /// <summary>The send has queued them for all clients.</summary>
    public void Release()
    {
        foreach (var encoded in _encoded)
            encoded.Release();
    }

    private EncodedRun GetOrJoin(NamedProtocol protocol)
    {
        foreach (var encoded in _encoded)
        {
            if (encoded.Protocol == protocol.Protocol.Name)
                return encoded;
        }

        var joined = Join(protocol);
        _encoded = [.. _encoded, joined];
        return joined;
    }

    private EncodedRun Join(NamedProtocol protocol)
    {
        // The messages are shorter than their records.
        var joined = EncodedRun.Rent(batch.MessageEnds[end - 1] - (first == 0 ? 0 : batch.MessageEnds[first - 1]));
        var ends = new int[end - first];
        var (length, count) = (0, 0);
        for (var index = first; index < end; index++)
        {
            if (!TryFind(index, protocol.Name, out var message))
                continue;
            message.CopyTo(joined.AsSpan(length));
            ends[count++] = length += message.Length;
        }

        return new EncodedRun(protocol.Protocol.Name, joined, length, ends, count);
    }

    private bool TryFind(int index, ReadOnlySpan<byte> protocol, out ReadOnlySpan<byte> message)
    {
        var record = new RecordReader(batch[index].Payload.Span);
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
