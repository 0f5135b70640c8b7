using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Connections;

/// <summary>The segments that wait in a send queue, and the one that is being written. Used under the send queue's lock.</summary>
internal sealed class SegmentQueue
{
    // A write of this size costs little more than its copy. Larger writes would hide the progress of a slow reader.
    public const int MaxWriteBytes = 64 * 1024;

    private readonly LinkedList<QueuedSegment> _segments = [];
    private QueuedSegment _underWay;
    private bool _isFirstStarted;
    private LinkedListNode<QueuedSegment>? _pong;

    // Null while no latest value waits.
    private LatestOutput? _latest;

    // Null while no one waits.
    private TaskCompletionSource? _halfFree;

    /// <summary>Everything that is not written yet, including the segment that is being written.</summary>
    public Amount Waiting { get; private set; }

    /// <summary>The memory that is held, of messages and of the protocol itself: the arrays, and what keeps them in order.</summary>
    public int HeldBytes { get; private set; }

    /// <summary>True from <see cref="Take"/> to <see cref="Release"/>.</summary>
    public bool IsUnderWay { get; private set; }

    public bool IsEmpty => _segments.Count == 0;

    /// <summary>Adds a segment at the end.</summary>
    /// <param name="segment">The segment.</param>
    /// <param name="isStarted">True for the rest of a run that was written in part: it can no longer be dropped.</param>
    public void Add(QueuedSegment segment, bool isStarted)
    {
        HeldBytes += segment.HeldBytes;
        Waiting += segment.Amount;
        _segments.AddLast(segment);
        _isFirstStarted |= isStarted;
    }

    /// <summary>Adds a run with latest values at the end.</summary>
    /// <param name="run">The run.</param>
    /// <param name="taken">How many of its bytes are written already.</param>
    /// <param name="limits">The limits.</param>
    public void AddLatest(in OutputRun run, int taken, SendQueueLimits limits)
    {
        _latest ??= new LatestOutput(this);
        _latest.Add(run, taken, limits);
    }

    /// <summary>Puts latest values in the place of older ones that wait.</summary>
    /// <returns>What holds the other messages of the run, if it has any and others were superseded; the caller releases it.</returns>
    public SharedBuffer? Supersede(in OutputRun run, SendQueueLimits limits, ref DeliveryTally tally, out OutputRun rest)
    {
        rest = run;
        return _latest?.Supersede(run, limits, ref tally, out rest);
    }

    /// <inheritdoc cref="LatestOutput.Forget(IReadOnlyList{OutputHandle})"/>
    public void ForgetLatest(IReadOnlyList<OutputHandle> handles) => _latest?.Forget(handles);

    /// <summary>The segment at the end.</summary>
    public LinkedListNode<QueuedSegment>? End => _segments.Last;

    /// <summary>The same; null when there is none, or it is written in part.</summary>
    public LinkedListNode<QueuedSegment>? Last => _isFirstStarted && _segments.Count == 1 ? null : _segments.Last;

    /// <summary>Changes a segment that waits, whose owner the caller has released if it has another one now.</summary>
    public void Change(LinkedListNode<QueuedSegment> node, QueuedSegment changed)
    {
        HeldBytes += changed.HeldBytes - node.Value.HeldBytes;
        Waiting += changed.Amount - node.Value.Amount;
        node.Value = changed;
    }

    /// <summary>Counts memory that is held beside the segments.</summary>
    public void Hold(int bytes) => HeldBytes += bytes;

    /// <summary>Notes that the segment at the end is a pong, which a newer one may replace.</summary>
    public void NotePong() => _pong = _segments.Last;

    /// <summary>Removes the pong that waits, if there is one: a newer one answers its ping too (RFC 6455, section 5.5.3).</summary>
    public void RemovePong()
    {
        if (_pong is null)
            return;
        _segments.Remove(_pong);
        Forget(_pong.Value);
        _pong = null;
    }

    /// <summary>Decides whether a run fits, after dropping other output if the policy says so.</summary>
    /// <param name="run">The run to add.</param>
    /// <param name="limits">The limits and the policy.</param>
    /// <param name="tally">Counts what is dropped.</param>
    /// <param name="refusal">Why the client must be disconnected; null when it stays connected.</param>
    /// <returns>False when the run was dropped and counted.</returns>
    public bool TryAdmit(in OutputRun run, SendQueueLimits limits, ref DeliveryTally tally, out DisconnectReason? refusal)
    {
        refusal = null;
        if (Fits(run, limits, freedBytes: 0, freed: default) || TryDrop(run, limits, ref tally))
            return true;

        // A protocol's own bytes can't be dropped, so a client whose whole queue consists of them is disconnected.
        var isDisconnected = limits.Policy == SlowConsumerPolicy.Disconnect || run.Messages == 0;
        tally.Settle(isDisconnected ? DeliveryOutcome.DroppedSlowConsumer : DeliveryOutcome.DroppedNewest, run.Amount);
        refusal = isDisconnected ? DisconnectReason.SlowConsumer : null;
        return false;
    }

    /// <summary>Takes the bytes of the next write: one large segment, or several small ones joined.</summary>
    public ReadOnlyMemory<byte> Take(SendQueueLimits limits)
    {
        _isFirstStarted = false;
        var count = CountJoined(limits, out var length);
        _underWay = count == 1 ? RemoveFirst() : Join(count, length);
        IsUnderWay = true;
        return _underWay.Bytes;
    }

    /// <summary>Releases what was taken: it is written, or never will be.</summary>
    public Amount Release(out Func<IWire, IWire>? nextWire)
    {
        var amount = _underWay.Amount;
        nextWire = _underWay.NextWire;
        IsUnderWay = false;
        Forget(_underWay);
        _underWay = default;
        return amount;
    }

    /// <summary>Completes when half of the capacity is free, or nothing more will be written.</summary>
    public Task WhenHalfFree(SendQueueLimits limits) =>
        IsHalfFree(limits) ? Task.CompletedTask : (_halfFree ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    public bool IsHalfFree(SendQueueLimits limits) => HeldBytes <= limits.MessageCapacityBytes / 2 && Waiting.Messages <= limits.MaxMessages / 2;

    /// <summary>Tells those who wait that half of the capacity is free, if it is.</summary>
    public void TellHalfFree(SendQueueLimits limits)
    {
        if (_halfFree is not null && IsHalfFree(limits))
            TellEnd();
    }

    /// <summary>Tells those who wait that there is nothing more to wait for.</summary>
    public void TellEnd()
    {
        _halfFree?.TrySetResult();
        _halfFree = null;
    }

    /// <summary>Drops everything that is not being written.</summary>
    public Amount Clear()
    {
        var dropped = default(Amount);
        foreach (var segment in _segments)
        {
            dropped += segment.Amount;
            Forget(segment);
        }

        _segments.Clear();
        _latest?.Clear();
        (_pong, _latest) = (null, null);
        return dropped;
    }

    private bool Fits(in OutputRun run, SendQueueLimits limits, int freedBytes, Amount freed) =>
        (long)HeldBytes - freedBytes + run.QueuedBytes <= limits.MessageCapacityBytes && Waiting.Messages - freed.Messages + run.Messages <= limits.MaxMessages;

    /// <summary>Drops messages by the policy: no more than the run needs, and none when the run can't fit anyway. When the policy drops new messages, a protocol's own bytes replace the newest messages that are queued.</summary>
    /// <returns>True when the run fits now.</returns>
    private bool TryDrop(in OutputRun run, SendQueueLimits limits, ref DeliveryTally tally)
    {
        if (limits.Policy == SlowConsumerPolicy.Disconnect || (limits.Policy == SlowConsumerPolicy.DropNewest && run.Messages > 0))
            return false;
        var isOldest = limits.Policy == SlowConsumerPolicy.DropOldest;
        var first = isOldest ? _segments.First : _segments.Last;
        var (end, freedBytes, freed) = (first, 0, default(Amount));
        for (; end is not null && !Fits(run, limits, freedBytes, freed); end = isOldest ? end.Next : end.Previous)
        {
            if (!IsDroppable(end))
                continue;
            freedBytes += end.Value.HeldBytes;
            freed += end.Value.Amount;
        }

        if (!Fits(run, limits, freedBytes, freed))
            return false;
        for (var node = first; node != end;)
        {
            var dropped = node!;
            node = isOldest ? dropped.Next : dropped.Previous;
            if (!IsDroppable(dropped))
                continue;
            _segments.Remove(dropped);
            _latest?.Forget(dropped);
            Forget(dropped.Value);
        }

        tally.Settle(isOldest ? DeliveryOutcome.DroppedOldest : DeliveryOutcome.DroppedNewest, freed);
        return true;
    }

    // A protocol's own bytes can't be dropped, and neither can the rest of a run that was written in part.
    private bool IsDroppable(LinkedListNode<QueuedSegment> node) => node.Value.Amount.Messages > 0 && !(_isFirstStarted && node == _segments.First);

    /// <summary>How many segments the next write takes: those within the limits, up to where another wire begins.</summary>
    /// <remarks>Joined segments must not hold more memory than they held separately: an array's size is a power of two.</remarks>
    private int CountJoined(SendQueueLimits limits, out int length)
    {
        var node = _segments.First!;
        var (count, messages, heldBytes) = (1, node.Value.Amount.Messages, node.Value.HeldBytes);
        length = node.Value.Bytes.Length;
        var mostBytes = MostBytesWith(node, limits.MaxRunBytes);
        while (node.Value.NextWire is null && node.Next is { Value: var next } following)
        {
            messages += next.Amount.Messages;
            heldBytes += next.HeldBytes;
            mostBytes = MostBytesWith(following, mostBytes);
            var longer = length + next.Bytes.Length;
            if (longer > mostBytes || messages > limits.MaxRunMessages || QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(longer)) > heldBytes)
                break;
            (node, length, count) = (following, longer, count + 1);
        }

        return count;
    }

    private int MostBytesWith(LinkedListNode<QueuedSegment> node, int mostBytes) =>
        _latest is not null && _latest.Has(node) ? Math.Min(mostBytes, LatestOutput.MaxWriteBytes) : mostBytes;

    private QueuedSegment Join(int count, int length)
    {
        var joined = SharedBuffer.Rent(length);
        var (end, amount, nextWire) = (0, default(Amount), default(Func<IWire, IWire>));
        for (; count > 0; count--)
        {
            var segment = RemoveFirst();
            segment.Bytes.CopyTo(joined.Memory[end..]);
            end += segment.Bytes.Length;
            amount += segment.Amount;
            nextWire = segment.NextWire;
            HeldBytes -= segment.HeldBytes;
            segment.Owner.Release();
        }

        var result = new QueuedSegment(joined, joined.Memory[..length], amount, nextWire);
        HeldBytes += result.HeldBytes;
        return result;
    }

    private QueuedSegment RemoveFirst()
    {
        var first = _segments.First!;
        _segments.RemoveFirst();
        if (first == _pong)
            _pong = null;
        if (_latest?.Forget(first) == 0)
            _latest = null;
        return first.Value;
    }

    private void Forget(QueuedSegment segment)
    {
        HeldBytes -= segment.HeldBytes;
        Waiting -= segment.Amount;
        segment.Owner.Release();
    }
}

/// <summary>Output that waits for its client to read: a run of at most 64 KiB, or one larger message.</summary>
/// <param name="Owner">The shared buffer; released when the bytes are written or dropped.</param>
/// <param name="Bytes">The bytes that are not written yet.</param>
/// <param name="Amount">What is counted when all of it is written; nothing for a protocol's own bytes.</param>
/// <param name="NextWire">Creates the wire for all bytes after it, such as a compressing wire; usually null.</param>
internal readonly record struct QueuedSegment(SharedBuffer Owner, ReadOnlyMemory<byte> Bytes, Amount Amount, Func<IWire, IWire>? NextWire)
{
    // In a 64-bit process: the list's node with this struct 88 bytes, the shared buffer 32, the array's header 24.
    private const int OverheadBytes = 144;

    /// <summary>The memory that it holds. An array that several clients share counts for each.</summary>
    public int HeldBytes => HeldBytesFor(Owner.Memory.Length);

    public static int HeldBytesFor(int arrayBytes) => OverheadBytes + arrayBytes;
}

/// <summary>The limits on output that waits for one client.</summary>
internal sealed record SendQueueLimits(int MaxBytes, int MaxMessages, SlowConsumerPolicy Policy)
{
    // The header of a WebSocket frame, or the framing of a GMCP message.
    private const int MaxFramingBytes = 16;

    /// <summary>The capacity for messages; the rest is reserved for the close frame.</summary>
    public int MessageCapacityBytes { get; } = MaxBytes - QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(WebSocketClosings.MaxFrameBytes));

    /// <summary>
    /// The longest run of several messages, and the most that is written at once. Its array takes at most half of the capacity: a run that is being written can't be dropped, and newer output must
    /// fit beside it.
    /// </summary>
    public int MaxRunBytes { get; } = LongestRun(MaxBytes);

    /// <summary>The longest message: telnet may double each of its bytes, and what frames it takes a few more.</summary>
    public int MaxMessageBytes => ((MessageCapacityBytes - QueuedSegment.HeldBytesFor(0)) / 2) - MaxFramingBytes;

    /// <summary>The most messages in a run.</summary>
    public int MaxRunMessages => Math.Max(1, MaxMessages / 2);

    /// <summary>The capacity for a run: that for messages, or all for a protocol's own bytes, such as the close frame.</summary>
    public int CapacityFor(in OutputRun run) => run.Messages > 0 ? MessageCapacityBytes : MaxBytes;

    public static SendQueueLimits From(BroadcastOptions options) => new(options.MaxQueuedBytes, options.MaxQueuedMessages, options.SlowConsumer);

    // The largest array's size, a power of two, of which two fit beside the close frame.
    private static int LongestRun(int maxBytes)
    {
        var longest = SegmentQueue.MaxWriteBytes;
        while (longest > 1 && (2 * QueuedSegment.HeldBytesFor(longest)) + QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(WebSocketClosings.MaxFrameBytes)) > maxBytes)
            longest /= 2;
        return longest;
    }
}
