using System.Buffers;

namespace BatchKit.Broadcast.Connections;

/// <summary>The pieces that wait in a send queue, and the one that is under way. Used under the queue's lock.</summary>
internal sealed class PieceQueue
{
    // A write of this size costs little more than its copy; larger ones would make a slow reader's progress harder to see.
    public const int MaxWriteBytes = 64 * 1024;

    private readonly LinkedList<QueuedPiece> _pieces = [];
    private QueuedPiece _underWay;
    private bool _isFirstStarted;

    /// <summary>All that waits, what is under way included; the bytes are those still to be written.</summary>
    public Amount Waiting { get; private set; }

    /// <summary>Bytes that are held: of messages and of the protocol itself.</summary>
    public int HeldBytes { get; private set; }

    /// <summary>True from <see cref="Take"/> until <see cref="Release"/>.</summary>
    public bool IsUnderWay { get; private set; }

    public bool IsEmpty => _pieces.Count == 0;

    /// <param name="piece">What waits.</param>
    /// <param name="isStarted">True for the rest of a piece of which a part was written: it can't be dropped any more.</param>
    public void Add(QueuedPiece piece, bool isStarted)
    {
        HeldBytes += piece.Bytes.Length;
        Waiting += piece.Amount;
        _pieces.AddLast(piece);
        _isFirstStarted |= isStarted;
    }

    /// <summary>Makes room for a run as the policy says, or settles the run.</summary>
    /// <param name="run">What is to be added.</param>
    /// <param name="limits">What may wait, and the policy.</param>
    /// <param name="tally">Counts what is dropped.</param>
    /// <param name="refusal">Why the client is to be disconnected; null when it is not.</param>
    public bool TryMakeRoom(in OutputRun run, SendQueueLimits limits, ref DeliveryTally tally, out DisconnectReason? refusal)
    {
        refusal = null;
        if (HasRoom(run, limits))
            return true;
        if (limits.Policy == SlowConsumerPolicy.DropOldest)
        {
            tally.Settle(DeliveryOutcome.DroppedOldest, DropOldest(run, limits));
            if (HasRoom(run, limits))
                return true;
        }

        // A protocol's own bytes can't be left out: a client that makes them pile up is not worth keeping.
        var isDisconnected = limits.Policy == SlowConsumerPolicy.Disconnect || run.Messages == 0;
        tally.Settle(isDisconnected ? DeliveryOutcome.DroppedSlowConsumer : DeliveryOutcome.DroppedNewest, run.Amount);
        refusal = isDisconnected ? DisconnectReason.SlowConsumer : null;
        return false;
    }

    /// <summary>Takes what the next write is made of: one large piece, or several small ones copied together.</summary>
    public ReadOnlyMemory<byte> Take(SendQueueLimits limits)
    {
        var first = _pieces.First!.Value;
        _pieces.RemoveFirst();
        _isFirstStarted = false;
        var isAlone = first.NextWire is not null || !IsNextWithin(limits, first.Bytes.Length, first.Amount);
        _underWay = isAlone ? first : Gather(first, limits);
        IsUnderWay = true;
        return _underWay.Bytes;
    }

    /// <summary>What was under way is written, or will never be.</summary>
    public Amount Release(out Func<IWire, IWire>? nextWire)
    {
        var amount = _underWay.Amount;
        nextWire = _underWay.NextWire;
        IsUnderWay = false;
        Forget(_underWay);
        _underWay = default;
        return amount;
    }

    /// <summary>Drops everything that is not under way.</summary>
    public Amount Clear()
    {
        var dropped = default(Amount);
        foreach (var piece in _pieces)
        {
            dropped += piece.Amount;
            Forget(piece);
        }

        _pieces.Clear();
        return dropped;
    }

    private bool HasRoom(in OutputRun run, SendQueueLimits limits) =>
        HeldBytes + run.Bytes.Length <= limits.RoomBytes && Waiting.Messages + run.Messages <= limits.MaxMessages;

    /// <summary>Drops messages from the oldest on until there is room, or none is left that may go.</summary>
    private Amount DropOldest(in OutputRun run, SendQueueLimits limits)
    {
        var dropped = default(Amount);
        var node = _isFirstStarted ? _pieces.First?.Next : _pieces.First;
        while (node is not null && !HasRoom(run, limits))
        {
            var next = node.Next;
            if (node.Value.Amount.Messages > 0)
            {
                _pieces.Remove(node);
                dropped += node.Value.Amount;
                Forget(node.Value);
            }

            node = next;
        }

        return dropped;
    }

    private bool IsNextWithin(SendQueueLimits limits, int length, Amount amount) =>
        _pieces.First is { Value: var next } && length + next.Bytes.Length <= limits.MaxRunBytes && amount.Messages + next.Amount.Messages <= limits.MaxRunMessages;

    private QueuedPiece Gather(QueuedPiece first, SendQueueLimits limits)
    {
        var gathered = SharedBuffer.Rent(limits.MaxRunBytes);
        var (length, amount, nextWire) = (0, default(Amount), default(Func<IWire, IWire>));
        var piece = first;
        while (true)
        {
            piece.Bytes.CopyTo(gathered.Memory[length..]);
            piece.Owner.Release();
            length += piece.Bytes.Length;
            amount += piece.Amount;
            nextWire = piece.NextWire;
            if (nextWire is not null || !IsNextWithin(limits, length, amount))
                return new QueuedPiece(gathered, gathered.Memory[..length], amount, nextWire);
            piece = _pieces.First!.Value;
            _pieces.RemoveFirst();
        }
    }

    private void Forget(QueuedPiece piece)
    {
        HeldBytes -= piece.Bytes.Length;
        Waiting -= piece.Amount;
        piece.Owner.Release();
    }
}
