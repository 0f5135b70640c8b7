using System.Text;
using BatchKit.Transports;

namespace BatchKit.SignalR.Records;

/// <summary>Consecutive records of a batch for the same clients. What they say is joined once for each protocol, and shared by all clients that speak it.</summary>
/// <remarks>Used by one send, while the batch's memory is valid; what it joined outlives the send.</remarks>
internal sealed class RecordRun(MessageBatch batch, int first, int end)
{
    private readonly List<EncodedRun> _encoded = [];

    /// <summary>The messages for the clients of a protocol.</summary>
    /// <param name="protocol">The protocol's name.</param>
    /// <param name="missing">How many records are left out because their server did not have the protocol.</param>
    public EncodedRun For(string protocol, out int missing)
    {
        var encoded = GetOrJoin(protocol);
        missing = end - first - encoded.Count;
        return encoded;
    }

    private EncodedRun GetOrJoin(string protocol)
    {
        foreach (var encoded in _encoded)
        {
            if (encoded.Protocol == protocol)
                return encoded;
        }

        var joined = Join(protocol);
        _encoded.Add(joined);
        return joined;
    }

    private EncodedRun Join(string protocol)
    {
        var name = Encoding.UTF8.GetBytes(protocol);
        var ends = new List<int>(end - first);
        var bytes = 0;
        for (var index = first; index < end; index++)
        {
            if (TryFind(index, name, out var message))
                ends.Add(bytes += message.Length);
        }

        var joined = GC.AllocateUninitializedArray<byte>(bytes);
        bytes = 0;
        for (var index = first; index < end; index++)
        {
            if (!TryFind(index, name, out var message))
                continue;
            message.CopyTo(joined.AsSpan(bytes));
            bytes += message.Length;
        }

        return new EncodedRun(protocol, joined, [.. ends]);
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
