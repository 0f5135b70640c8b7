using System.Buffers;
using System.Runtime.InteropServices;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Telnet;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Delivers one batch to any number of connections. It encodes the batch on first need, once for each wire format.</summary>
internal sealed class BatchDelivery(SendQueueLimits limits)
{
    // Guards encoding: one thread encodes a format, the others wait for it.
    private readonly Lock _lock = new();
    private readonly EncodedBatch[] _encoded = new EncodedBatch[WireFormat.Count];
    private readonly bool[] _isReady = new bool[WireFormat.Count];
    private readonly Exclusions _exclusions = new();
    private readonly List<OutputHandle> _changedGroups = [];
    private MessageBatch? _batch;
    private bool _isShared;
    private bool _hasEcho;

    /// <summary>Starts the delivery of a batch.</summary>
    /// <param name="batch">Must stay valid until <see cref="Release"/>.</param>
    /// <param name="isShared">True when several connections get the batch: their queues then share one copy.</param>
    public void Begin(MessageBatch batch, bool isShared)
    {
        _batch = batch;
        _isShared = isShared;
        if (batch.HasHeaders)
            _exclusions.Read(batch.Headers);

        // Only for one client: see TelnetMessages.HideInput.
        _hasEcho = batch.HasHeaders && !isShared && HasEcho(batch.Headers);
        if (batch.HasHeaders && !isShared)
            ReadChangedGroups(batch);
    }

    /// <inheritdoc cref="Send(ClientConnection, int, bool, OutputComposer, ref DeliveryTally)"/>
    public void Send(ClientConnection connection, bool isAlone, OutputComposer composer, ref DeliveryTally tally) =>
        Send(connection, _batch!.Count, isAlone, composer, ref tally);

    /// <summary>Sends one connection the batch's messages, or the first of them, directly or through the composer.</summary>
    /// <param name="connection">The connection.</param>
    /// <param name="messages">How many of the batch's messages, from the first. The connection is closed behind them, so that the others are dropped.</param>
    /// <param name="isAlone">True when the connection gets nothing else in this send.</param>
    /// <param name="composer">The caller flushes it after the connection's last batch.</param>
    /// <param name="tally">Counts the messages.</param>
    public void Send(ClientConnection connection, int messages, bool isAlone, OutputComposer composer, ref DeliveryTally tally)
    {
        if (_changedGroups.Count > 0)
            composer.ChangeGroups(connection, _changedGroups, ref tally);
        var encoded = Get(connection.Format);
        var isWhole = messages == _batch!.Count && encoded.IsOneRun(limits) && !_exclusions.Contains(connection.Handle);
        if (connection.Prompts is not null || (_hasEcho && connection.Terminal is not null))
            SendEach(connection, encoded, messages, composer, ref tally);
        else if (isWhole && isAlone)
            connection.Send(encoded.Whole, ref tally);
        else if (isWhole)
            composer.Add(connection, encoded.Whole, ref tally);
        else
            SendParts(connection, encoded, messages, composer, ref tally);
        Drop(connection, encoded, messages, ref tally);
    }

    public void Release()
    {
        for (var index = 0; index < _isReady.Length; index++)
        {
            if (_isReady[index])
                _encoded[index].Release();
        }

        Array.Clear(_isReady);
        _exclusions.Clear();
        _changedGroups.Clear();
        _batch = null;
    }

    private void ReadChangedGroups(MessageBatch batch)
    {
        for (var index = 0; index < batch.Count; index++)
        {
            if (batch.Headers[index]?.Kind == MessageKind.Control && ControlMessage.TryRead(batch[index].Payload.Span, out var control) && control.Group.Length > 0)
                _changedGroups.Add(OutputHandle.Named(control.Group));
        }
    }

    private EncodedBatch Get(WireFormat format)
    {
        if (Volatile.Read(ref _isReady[format.Index]))
            return _encoded[format.Index];
        lock (_lock)
        {
            var encoded = _encoded[format.Index] ??= new EncodedBatch();
            if (_isReady[format.Index])
                return encoded;
            if (_isShared || !IsAsItIs(format))
                encoded.Encode(_batch!, format);
            else
                encoded.Borrow(_batch!);
            Volatile.Write(ref _isReady[format.Index], true);
            return encoded;
        }
    }

    private bool IsAsItIs(WireFormat format) =>
        !_batch!.HasHeaders && (format == WireFormat.Raw || (format.IsTelnet && TelnetEncoder.IsPlain(format, _batch.Payload.Span)));

    private void SendParts(ClientConnection connection, EncodedBatch encoded, int messages, OutputComposer composer, ref DeliveryTally tally)
    {
        for (var first = 0; first < messages;)
        {
            var end = EndOfIncluded(first, messages, connection);
            if (end > first)
            {
                end = encoded.EndOfRun(first, end, limits);
                composer.Add(connection, encoded.GetRun(first, end), ref tally);
            }

            first = Math.Max(end, first + 1);
        }
    }

    private void SendEach(ClientConnection connection, EncodedBatch encoded, int messages, OutputComposer composer, ref DeliveryTally tally)
    {
        for (var index = 0; index < messages; index++)
        {
            if (_exclusions.Contains(index, connection.Handle))
                continue;
            var message = _batch![index];
            var run = encoded.GetRun(index, index + 1);
            if (_hasEcho && TelnetMessages.HidesInput(message.Header) is { } isHidden)
                Tell(connection, isHidden, composer, ref tally);
            else if (run.Messages == 0)
                continue;
            else if (connection.Prompts is { } prompts && TelnetMessages.OptionOf(message.Header) is null)
                // The prompt around a line belongs to it.
                prompts.Add(connection, run.WithoutLatest(), isPrompt: message.Kind == MessageKind.Prompt, composer, ref tally);
            else
                composer.Add(connection, run, ref tally);
        }
    }

    private void Drop(ClientConnection connection, EncodedBatch encoded, int first, ref DeliveryTally tally)
    {
        for (var index = first; index < _batch!.Count; index++)
        {
            if (_exclusions.Contains(index, connection.Handle))
                continue;
            var dropped = encoded.GetRun(index, index + 1).Amount;
            tally.Attempt(dropped);
            tally.Settle(DeliveryOutcome.DroppedClosed, dropped);
        }
    }

    /// <summary>Sends a command that is not dropped, behind the messages before it.</summary>
    private static void Tell(ClientConnection connection, bool isHidden, OutputComposer composer, ref DeliveryTally tally)
    {
        composer.Flush(connection, ref tally);
        connection.Terminal!.Echo.Tell(isHidden, connection);
    }

    private static bool HasEcho(ReadOnlySpan<MessageHeader?> headers)
    {
        foreach (var header in headers)
        {
            if (TelnetMessages.HidesInput(header) is not null)
                return true;
        }

        return false;
    }

    /// <summary>The index of the next message that the connection is excluded from, at or after <paramref name="first"/>.</summary>
    private int EndOfIncluded(int first, int messages, ClientConnection connection)
    {
        if (!_exclusions.Contains(connection.Handle))
            return messages;
        var end = first;
        while (end < messages && !_exclusions.Contains(end, connection.Handle))
            end++;
        return end;
    }
}

/// <summary>A batch's messages in one wire format, contiguous, shared by all clients of that format.</summary>
internal sealed class EncodedBatch
{
    // Set in the end of a message that clients of this format do not get. Such a message has no bytes.
    private const int SkippedBit = 1 << 31;

    private int[] _ends = [];
    private int _count;
    private SharedBuffer? _owner;
    private ReadOnlyMemory<byte> _bytes;

    // Null until a batch has a latest value.
    private List<LatestMark>? _latest;

    /// <summary>All messages as one run.</summary>
    public OutputRun Whole => new(_bytes.Span, Messages, _owner) { Latest = CollectionsMarshal.AsSpan(_latest) };

    /// <summary>How many messages clients of this format get.</summary>
    public int Messages { get; private set; }

    public int Length => _bytes.Length;

    /// <summary>Encodes a batch into a buffer of its own, which queues may keep.</summary>
    public void Encode(MessageBatch batch, WireFormat format)
    {
        var maxBytes = 0;
        foreach (var message in batch)
            maxBytes = checked(maxBytes + MessageEncoder.GetMaxBytes(format, message.Payload.Span));
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
        MarkLatest(batch);
    }

    /// <summary>Uses the batch's bytes unchanged; a queue must copy them.</summary>
    public void Borrow(MessageBatch batch)
    {
        Begin(batch.Count);
        batch.MessageEnds.CopyTo(_ends);
        (_count, Messages, _bytes) = (batch.Count, batch.Count, batch.Payload);
        MarkLatest(batch);
    }

    /// <summary>A run of messages.</summary>
    /// <param name="first">The index of the first message.</param>
    /// <param name="end">The index after the last message.</param>
    public OutputRun GetRun(int first, int end)
    {
        var start = StartOf(first);
        var latest = LatestIn(start, StartOf(end));
        var before = latest.IsEmpty ? 0 : latest[0].Before - CountMessages(first, IndexAt(latest[0].Start, first));
        return new OutputRun(_bytes.Span[start..StartOf(end)], CountMessages(first, end), _owner, start) { Latest = latest, LatestOrigin = new LatestCut(0, start, before) };
    }

    /// <summary>True when all messages fit into one run; false when they need several, or there are none.</summary>
    public bool IsOneRun(SendQueueLimits limits) => Messages > 0 && Messages <= limits.MaxRunMessages && Length <= limits.MaxRunBytes;

    /// <summary>The index after the last message of the longest run within the limits that starts at <paramref name="first"/>. A run has at least one message.</summary>
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
        _latest?.Clear();
    }

    private void MarkLatest(MessageBatch batch)
    {
        var (messages, next) = (0, 0);
        foreach (var latest in batch.LatestMessages)
        {
            messages += CountMessages(next, latest.Index);
            next = latest.Index;
            var start = StartOf(next);
            // A client that does not get it, or that gets nothing, has no older one either.
            if (StartOf(next + 1) - start is > 0 and var length)
                (_latest ??= []).Add(new LatestMark(new LatestKey(batch.Handle, latest.Key), start, length, messages));
        }
    }

    private ReadOnlySpan<LatestMark> LatestIn(int start, int end)
    {
        var all = CollectionsMarshal.AsSpan(_latest);
        // Each message may be a run of its own: a search from the first mark would take their square.
        var (first, high) = (0, all.Length);
        while (first < high)
        {
            var middle = (first + high) / 2;
            (first, high) = all[middle].Start < start ? (middle + 1, high) : (first, middle);
        }

        var last = first;
        while (last < all.Length && all[last].Start < end)
            last++;
        return all[first..last];
    }

    /// <summary>The index of the message that has a byte, at or after <paramref name="index"/>.</summary>
    private int IndexAt(int position, int index)
    {
        while (StartOf(index + 1) <= position)
            index++;
        return index;
    }

    private int CountMessages(int first, int end)
    {
        if (Messages == _count)
            return end - first;
        var messages = 0;
        for (var index = first; index < end; index++)
            messages += _ends[index] < 0 ? 0 : 1;
        return messages;
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
