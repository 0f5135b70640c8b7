using System.Runtime.InteropServices;

namespace BatchKit.Broadcast.Connections;

/// <summary>The latest values that wait for one client. A newer one takes the place of the older one, so that a client that reads slowly gets the newest and no backlog. Used under the send queue's lock.</summary>
internal sealed class LatestOutput(SegmentQueue queue)
{
    /// <summary>The most that a write takes where it has latest values: a slow client gets what was taken long after it could still be replaced. Longer values are taken one by one.</summary>
    public const int MaxWriteBytes = 4096;

    // An entry of the dictionary with its bucket, and a place. It counts, so that many keys with small values can't take more memory than the client may.
    private const int KeyBytes = 96;

    // A segment's own object, its list, and its entry of the dictionary.
    private const int SegmentBytes = 112;

    private readonly Dictionary<LatestKey, LatestPlace> _places = [];
    private readonly Dictionary<LinkedListNode<QueuedSegment>, LatestSegment> _segments = [];
    private readonly List<LatestMark> _left = [];
    private readonly HashSet<LatestKey> _behind = [];

    /// <summary>Whether a segment has latest values.</summary>
    public bool Has(LinkedListNode<QueuedSegment> node) => _segments.ContainsKey(node);

    /// <summary>Adds a run at the end of the queue: to the last segment if that has latest values too, else as segments of its own, cut beside values.</summary>
    /// <param name="run">The run.</param>
    /// <param name="taken">How many of its bytes are written already.</param>
    /// <param name="limits">The limits.</param>
    public void Add(in OutputRun run, int taken, SendQueueLimits limits)
    {
        // Without memory for what is remembered of its values they are sent as plain messages.
        if (run.Bytes.Length > MaxWriteBytes && queue.HeldBytes + MostHeldBytes(run) > limits.MessageCapacityBytes)
        {
            queue.Add(run.ToSegment(taken, nextWire: null, limits.MessageCapacityBytes - queue.HeldBytes), isStarted: taken > 0);
            ForgetOlder(run);
            return;
        }

        var (start, end) = (default(LatestCut), default(LatestCut));
        for (var index = 0; index < run.Latest.Length; index++)
        {
            var mark = run.GetLatest(index);
            if (mark.Start + mark.Length - start.Bytes > MaxWriteBytes)
                AddPart(run, ref start, new LatestCut(index, mark.Start, mark.Before), ref taken, limits);
            end = new LatestCut(index + 1, mark.Start + mark.Length, mark.Before + 1);
        }

        // Empty messages at the end have no part of their own, and neither have bytes that no message has, such as a repeated prompt.
        if (run.Bytes.Length - start.Bytes > MaxWriteBytes && end.Bytes < run.Bytes.Length && end.Messages < run.Messages)
            AddPart(run, ref start, end, ref taken, limits);
        AddPart(run, ref start, new LatestCut(run.Latest.Length, run.Bytes.Length, run.Messages), ref taken, limits);
    }

    /// <inheritdoc cref="SegmentQueue.Supersede"/>
    public SharedBuffer? Supersede(in OutputRun run, SendQueueLimits limits, ref DeliveryTally tally, out OutputRun rest)
    {
        rest = run;
        _left.Clear();
        _behind.Clear();
        SharedBuffer? kept = null;
        var (length, from, superseded) = (0, 0, 0);
        for (var index = 0; index < run.Latest.Length; index++)
        {
            var mark = run.GetLatest(index);
            var start = mark.Start;
            // The last message takes along the bytes that no message has.
            var isNeeded = superseded + 1 == run.Messages && length + run.Bytes.Length - from > mark.Length;
            if (isNeeded || !TryReplace(mark.Key, run.Bytes.Slice(start, mark.Length), limits, ref tally))
            {
                _left.Add(mark with { Start = start - from + length, Before = mark.Before - superseded });
                continue;
            }

            superseded++;
            length += Copy(run, from..start, ref kept, length);
            from = start + mark.Length;
        }

        if (superseded == 0)
            return null;
        length += Copy(run, from.., ref kept, length);
        rest = new OutputRun(kept is null ? [] : kept.Memory.Span[..length], run.Messages - superseded) { Latest = CollectionsMarshal.AsSpan(_left) };
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

    /// <summary>Forgets where values of some handles are: newer ones go behind what waits.</summary>
    public void Forget(IReadOnlyList<OutputHandle> handles)
    {
        foreach (var (key, _) in _places)
        {
            if (handles.Contains(key.Handle))
                _places.Remove(key);
        }
    }

    /// <summary>All segments leave the queue.</summary>
    public void Clear()
    {
        foreach (var segment in _segments.Values)
            queue.Hold(-HeldFor(segment.Values.Count));
    }

    // Most runs have nothing but values that replace others, and need no memory.
    private static int Copy(in OutputRun run, Range range, ref SharedBuffer? target, int offset)
    {
        var bytes = run.Bytes[range];
        if (bytes.IsEmpty)
            return 0;
        target ??= SharedBuffer.Rent(run.Bytes.Length);
        bytes.CopyTo(target.Memory.Span[offset..]);
        return bytes.Length;
    }

    private static int HeldFor(int values) => SegmentBytes + (values * KeyBytes);

    // Each part is at most a message that no value is beside, or as long as a write; no two of them fit into one. The first may be added to a segment that waits.
    private static long MostHeldBytes(in OutputRun run) =>
        MaxWriteBytes + (2L * run.Bytes.Length) + (((2L * run.Bytes.Length / MaxWriteBytes) + 2) * (QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(1)) + SegmentBytes)) + (run.Latest.Length * (long)KeyBytes);

    private void AddPart(in OutputRun run, ref LatestCut start, LatestCut end, ref int taken, SendQueueLimits limits)
    {
        // What is written already counts with what follows it.
        if (end.Bytes <= Math.Max(taken, start.Bytes))
            return;
        var part = new OutputRun(run.Bytes[start.Bytes..end.Bytes], end.Messages - start.Messages, run.Owner, run.Offset + start.Bytes)
        {
            Latest = run.Latest[start.Index..end.Index],
            LatestOrigin = new LatestCut(0, run.LatestOrigin.Bytes + start.Bytes, run.LatestOrigin.Messages + start.Messages),
        };
        if (taken > 0 || !TryExtendLast(part, limits))
        {
            queue.Add(part.ToSegment(taken, nextWire: null, limits.MessageCapacityBytes - queue.HeldBytes), isStarted: taken > 0);
            NoteLast(part, taken, limits);
        }

        (start, taken) = (end, 0);
    }

    private bool TryExtendLast(in OutputRun run, SendQueueLimits limits)
    {
        if (queue.Last is not { } node || !_segments.TryGetValue(node, out var segment))
            return false;
        var last = node.Value;
        var length = last.Bytes.Length + run.Bytes.Length;
        if (length > Math.Min(limits.MaxRunBytes, MaxWriteBytes) || last.Amount.Messages + run.Messages > limits.MaxRunMessages)
            return false;
        // The run was admitted by its own size, and the longer array may be twice as large.
        var growth = QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(length)) - last.HeldBytes;
        if (queue.HeldBytes + (long)growth + (run.Latest.Length * KeyBytes) > limits.MessageCapacityBytes)
            return false;
        Resize(segment, last.Bytes.Length, oldBytes: 0, run.Bytes, run.Amount);
        NoteAll(segment, run, last.Bytes.Length);
        return true;
    }

    private void NoteLast(in OutputRun run, int taken, SendQueueLimits limits)
    {
        if (run.Latest.IsEmpty)
            return;
        if (queue.HeldBytes + (long)HeldFor(run.Latest.Length) > limits.MessageCapacityBytes)
        {
            ForgetOlder(run);
            return;
        }

        var segment = new LatestSegment(queue.End!);
        _segments.Add(segment.Node, segment);
        queue.Hold(SegmentBytes);
        NoteAll(segment, run, -taken);
    }

    // A newer value must not take the place of one that is before a value of its key that is not remembered.
    private void ForgetOlder(in OutputRun run)
    {
        foreach (var mark in run.Latest)
            _places.Remove(mark.Key);
    }

    private void NoteAll(LatestSegment segment, in OutputRun run, int offset)
    {
        for (var index = 0; index < run.Latest.Length; index++)
        {
            var (key, start, length, _) = run.GetLatest(index);
            // One that is written in part can no longer be replaced.
            if (start + offset < 0)
                continue;
            _places[key] = new LatestPlace(segment, segment.Values.Count);
            segment.Values.Add(new LatestValue(key, start + offset, length));
            queue.Hold(KeyBytes);
        }
    }

    private void Forget(LatestSegment segment)
    {
        foreach (var value in segment.Values)
        {
            if (_places.TryGetValue(value.Key, out var place) && place.Segment == segment)
                _places.Remove(value.Key);
        }

        queue.Hold(-HeldFor(segment.Values.Count));
    }

    private bool TryReplace(LatestKey key, ReadOnlySpan<byte> bytes, SendQueueLimits limits, ref DeliveryTally tally)
    {
        // Nor does a value overtake an older one of its run that goes behind.
        if (!_places.TryGetValue(key, out var place) || _behind.Contains(key))
            return false;
        var (segment, index) = place;
        var older = segment.Values[index];
        if (!MayGrow(segment.Node.Value, bytes.Length - older.Length, limits))
        {
            _behind.Add(key);
            return false;
        }

        Resize(segment, older.Start, older.Length, bytes, new Amount(0, bytes.Length - older.Length));
        segment.Move(index, bytes.Length - older.Length);
        tally.Settle(DeliveryOutcome.Superseded, new Amount(1, older.Length));
        return true;
    }

    private bool MayGrow(in QueuedSegment segment, int bytes, SendQueueLimits limits)
    {
        var length = segment.Bytes.Length + bytes;
        // What is longer than a write is cut anywhere, which only one message may be.
        if (bytes > 0 && segment.Amount.Messages > 1 && length > Math.Min(limits.MaxRunBytes, MaxWriteBytes))
            return false;
        var growth = QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(length)) - segment.HeldBytes;
        // Without capacity for a longer value the client's policy decides, as for any other message.
        return growth <= 0 || queue.HeldBytes + growth <= limits.MessageCapacityBytes;
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

        public List<LatestValue> Values { get; } = [];

        /// <summary>True once no other client shares its memory, in which it starts at 0.</summary>
        public bool HasOwnMemory { get; set; }

        /// <summary>A value has become longer, or shorter.</summary>
        public void Move(int index, int growth)
        {
            if (growth == 0)
                return;
            var values = CollectionsMarshal.AsSpan(Values);
            values[index] = values[index] with { Length = values[index].Length + growth };
            foreach (ref var value in values[(index + 1)..])
                value = value with { Start = value.Start + growth };
        }
    }

    private readonly record struct LatestPlace(LatestSegment Segment, int Index);

    private readonly record struct LatestValue(LatestKey Key, int Start, int Length);
}

/// <summary>What a latest value is of, among all output of a client.</summary>
/// <param name="Handle">Where it was written to: the connection, or one of its groups.</param>
/// <param name="Key">Its key there.</param>
internal readonly record struct LatestKey(OutputHandle Handle, long Key);

/// <summary>Where a latest value is in encoded output.</summary>
/// <param name="Key">What it is of.</param>
/// <param name="Start">Where it begins.</param>
/// <param name="Length">How many bytes it has.</param>
/// <param name="Before">How many messages are before it.</param>
internal readonly record struct LatestMark(LatestKey Key, int Start, int Length, int Before);

/// <summary>A place between messages of a run.</summary>
/// <param name="Index">How many latest values are before it.</param>
/// <param name="Bytes">How many bytes.</param>
/// <param name="Messages">How many messages.</param>
internal readonly record struct LatestCut(int Index, int Bytes, int Messages);
