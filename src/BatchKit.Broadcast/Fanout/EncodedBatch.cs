using System.Buffers;
using BatchKit.Broadcast.Connections;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Fanout;

/// <summary>A batch's messages in one wire format, one behind the other, shared by all clients of that format.</summary>
internal sealed class EncodedBatch
{
    // Marks the end of a message that clients of this format do not get; such a message has no bytes.
    private const int SkippedBit = 1 << 31;

    private int[] _ends = [];
    private int _count;
    private SharedBuffer? _owner;
    private ReadOnlyMemory<byte> _bytes;

    /// <summary>All messages as one run.</summary>
    public OutputRun Whole => new(_bytes.Span, Messages, _owner);

    /// <summary>How many messages clients of this format get.</summary>
    public int Messages { get; private set; }

    public int Length => _bytes.Length;

    /// <summary>Encodes a batch into bytes of its own, which queues may keep.</summary>
    public void Encode(MessageBatch batch, WireFormat format)
    {
        var maxBytes = 0;
        foreach (var message in batch)
            maxBytes = checked(maxBytes + MessageEncoder.GetMaxBytes(format, message.Payload.Length));
        _owner = SharedBuffer.Rent(maxBytes);
        Begin(batch.Count);
        var end = 0;
        var destination = _owner.Memory.Span;
        foreach (var message in batch)
        {
            var isEncoded = MessageEncoder.TryEncode(format, message, destination[end..], out var written);
            end += written;
            _ends[_count++] = isEncoded ? end : end | SkippedBit;
            Messages += isEncoded ? 1 : 0;
        }

        _bytes = _owner.Memory[..end];
    }

    /// <summary>Takes the batch's bytes as they are; who queues them copies.</summary>
    public void Borrow(MessageBatch batch)
    {
        Begin(batch.Count);
        batch.MessageEnds.CopyTo(_ends);
        (_count, Messages, _bytes) = (batch.Count, batch.Count, batch.Payload);
    }

    /// <summary>A run of messages.</summary>
    /// <param name="first">The first message's place in the batch.</param>
    /// <param name="end">The place behind the last one.</param>
    public OutputRun GetRun(int first, int end)
    {
        var start = StartOf(first);
        var messages = 0;
        for (var index = first; index < end; index++)
            messages += _ends[index] < 0 ? 0 : 1;
        return new OutputRun(_bytes.Span[start..StartOf(end)], messages, _owner, start);
    }

    /// <summary>True when all messages are one run that a queue can take; false when they are to be cut into several, or there are none.</summary>
    public bool IsOneRun(SendQueueLimits limits) => Messages > 0 && Messages <= limits.MaxRunMessages && Length <= limits.MaxRunBytes;

    /// <summary>The place behind the last message that a run from the first one on may have without passing a limit; at least one message.</summary>
    public int EndOfRun(int first, int end, SendQueueLimits limits)
    {
        var (start, next) = (StartOf(first), first + 1);
        while (next < end && next - first < limits.MaxRunMessages && StartOf(next + 1) - start <= limits.MaxRunBytes)
            next++;
        return next;
    }

    public void Release()
    {
        _owner?.Release();
        (_owner, _bytes, _count, Messages) = (null, default, 0, 0);
    }

    private int StartOf(int index) => index == 0 ? 0 : _ends[index - 1] & ~SkippedBit;

    private void Begin(int count)
    {
        (_count, Messages) = (0, 0);
        if (_ends.Length >= count)
            return;
        if (_ends.Length > 0)
            ArrayPool<int>.Shared.Return(_ends);
        _ends = ArrayPool<int>.Shared.Rent(count);
    }
}
