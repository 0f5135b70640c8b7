using System.Runtime.InteropServices;

namespace BatchKit.Broadcast.Connections;

/// <summary>The latest values that wait for one client. A newer one takes the place of the older one, so that a client that reads slowly gets the newest and no backlog. Used under the send queue's lock.</summary>
internal sealed class LatestOutput(SegmentQueue queue)
{
    // An entry of the dictionary with its bucket, and a mark. It counts, so that many keys with small values can't take more memory than the client may.
    private const int KeyBytes = 96;

    private readonly Dictionary<LatestKey, LatestPlace> _places = [];
    private readonly Dictionary<LinkedListNode<QueuedSegment>, LatestSegment> _segments = [];
    private readonly List<LatestMark> _left = [];

    /// <summary>Whether there is memory for what is remembered of a run's values. Without it they are sent as plain messages.</summary>
    public bool HasRoomFor(in OutputRun run, SendQueueLimits limits) => queue.HeldBytes + ((long)run.Latest.Length * KeyBytes) <= limits.MessageCapacityBytes;

    /// <summary>Notes the latest values of the segment at the end of the queue.</summary>
    /// <param name="run">The run that it was created of.</param>
    /// <param name="taken">How many of the run's bytes the segment lacks.</param>
    public void Note(in OutputRun run, int taken)
    {
        var segment = new LatestSegment(queue.End!);
        _segments.Add(segment.Node, segment);
        // One that is written in part can no longer be replaced.
        foreach (var mark in run.Latest)
            Note(segment, mark, mark.Start - run.LatestOrigin - taken);
    }

    /// <summary>Adds a run to the segment at the end, if that has latest values too: alone, each segment would hold more memory than a short value.</summary>
    public bool TryExtendLast(in OutputRun run, SendQueueLimits limits)
    {
        if (queue.Last is not { } node || !_segments.TryGetValue(node, out var segment) || !HasRoomFor(run, limits))
            return false;
        var last = node.Value;
        var length = last.Bytes.Length + run.Bytes.Length;
        if (length > Math.Min(limits.MaxRunBytes, SegmentQueue.MaxWriteBytes) || last.Amount.Messages + run.Messages > limits.MaxRunMessages)
            return false;
        // The run was admitted by its own size, and the longer array may be twice as large.
        var growth = QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(length)) - last.HeldBytes;
        if (queue.HeldBytes + (long)growth + (run.Latest.Length * KeyBytes) > limits.MessageCapacityBytes)
            return false;
        Resize(segment, last.Bytes.Length, oldBytes: 0, run.Bytes, run.Amount);
        foreach (var mark in run.Latest)
            Note(segment, mark, mark.Start - run.LatestOrigin + last.Bytes.Length);
        return true;
    }

    /// <inheritdoc cref="SegmentQueue.Supersede"/>
    public SharedBuffer? Supersede(in OutputRun run, SendQueueLimits limits, ref DeliveryTally tally, out OutputRun rest)
    {
        rest = run;
        _left.Clear();
        SharedBuffer? kept = null;
        var (length, from, superseded) = (0, 0, 0);
        foreach (var mark in run.Latest)
        {
            var start = mark.Start - run.LatestOrigin;
            if (!TryReplace(mark.Key, run.Bytes.Slice(start, mark.Length), limits, ref tally))
            {
                _left.Add(mark with { Start = start - from + length });
                continue;
            }

            superseded++;
            kept ??= SharedBuffer.Rent(run.Bytes.Length);
            length += Copy(run.Bytes[from..start], kept, length);
            from = start + mark.Length;
        }

        if (kept is null)
            return null;
        length += Copy(run.Bytes[from..], kept, length);
        rest = new OutputRun(kept.Memory.Span[..length], run.Messages - superseded) { Latest = CollectionsMarshal.AsSpan(_left) };
        return kept;
    }

    /// <summary>A segment leaves the queue: its values can no longer be replaced.</summary>
    /// <returns>How many other segments have latest values.</returns>
    public int Forget(LinkedListNode<QueuedSegment> node)
    {
        if (_segments.Remove(node, out var segment))
            Forget(segment);
        return _segments.Count;
    }

    /// <summary>All segments leave the queue.</summary>
    public void Clear()
    {
        foreach (var segment in _segments.Values)
            queue.Hold(-segment.Marks.Count * KeyBytes);
    }

    private static int Copy(ReadOnlySpan<byte> bytes, SharedBuffer target, int offset)
    {
        bytes.CopyTo(target.Memory.Span[offset..]);
        return bytes.Length;
    }

    private void Note(LatestSegment segment, in LatestMark mark, int start)
    {
        if (start < 0)
            return;
        _places[mark.Key] = new LatestPlace(segment, segment.Marks.Count);
        segment.Marks.Add(mark with { Start = start });
        queue.Hold(KeyBytes);
    }

    private void Forget(LatestSegment segment)
    {
        foreach (var mark in segment.Marks)
        {
            if (_places.TryGetValue(mark.Key, out var place) && place.Segment == segment)
                _places.Remove(mark.Key);
        }

        queue.Hold(-segment.Marks.Count * KeyBytes);
    }

    private bool TryReplace(LatestKey key, ReadOnlySpan<byte> bytes, SendQueueLimits limits, ref DeliveryTally tally)
    {
        if (!_places.TryGetValue(key, out var place))
            return false;
        var (segment, index) = place;
        var older = segment.Marks[index];
        var length = segment.Node.Value.Bytes.Length - older.Length + bytes.Length;
        var growth = QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(length)) - segment.Node.Value.HeldBytes;
        // Without room for a longer value the client's policy decides, as for any other message.
        if (growth > 0 && queue.HeldBytes + growth > limits.MessageCapacityBytes)
            return false;
        Resize(segment, older.Start, older.Length, bytes, new Amount(0, bytes.Length - older.Length));
        segment.Move(index, bytes.Length - older.Length);
        tally.Settle(DeliveryOutcome.Superseded, new Amount(1, older.Length));
        return true;
    }

    // Replaces some bytes of a segment. Other clients may share its memory until it has its own.
    private void Resize(LatestSegment segment, int start, int oldBytes, ReadOnlySpan<byte> bytes, Amount growth)
    {
        var old = segment.Node.Value;
        var length = old.Bytes.Length - oldBytes + bytes.Length;
        var isInPlace = segment.HasOwnMemory && length <= old.Owner.Memory.Length;
        var owner = isInPlace ? old.Owner : SharedBuffer.Rent(length);
        var memory = owner.Memory.Span;
        old.Bytes.Span[(start + oldBytes)..].CopyTo(memory[(start + bytes.Length)..]);
        if (!isInPlace)
            old.Bytes.Span[..start].CopyTo(memory);
        bytes.CopyTo(memory[start..]);
        queue.Change(segment.Node, old with { Owner = owner, Bytes = owner.Memory[..length], Amount = old.Amount + growth });
        if (!isInPlace)
            old.Owner.Release();
        segment.HasOwnMemory = true;
    }

    /// <summary>A segment that has latest values, each with its place in the segment's bytes.</summary>
    private sealed class LatestSegment(LinkedListNode<QueuedSegment> node)
    {
        public LinkedListNode<QueuedSegment> Node => node;

        public List<LatestMark> Marks { get; } = [];

        /// <summary>True once no other client shares its memory, in which it starts at 0.</summary>
        public bool HasOwnMemory { get; set; }

        /// <summary>A value has become longer, or shorter.</summary>
        public void Move(int index, int growth)
        {
            if (growth == 0)
                return;
            var marks = CollectionsMarshal.AsSpan(Marks);
            marks[index] = marks[index] with { Length = marks[index].Length + growth };
            foreach (ref var mark in marks[(index + 1)..])
                mark = mark with { Start = mark.Start + growth };
        }
    }

    private readonly record struct LatestPlace(LatestSegment Segment, int Index);
}

/// <summary>What a latest value is of, among all output of a client.</summary>
/// <param name="Handle">Where it was written to: the connection, or one of its groups.</param>
/// <param name="Key">Its key there.</param>
internal readonly record struct LatestKey(OutputHandle Handle, long Key);

/// <summary>Where a latest value is in encoded output.</summary>
/// <param name="Key">What it is of.</param>
/// <param name="Start">Where it begins.</param>
/// <param name="Length">How many bytes it has.</param>
internal readonly record struct LatestMark(LatestKey Key, int Start, int Length);
