using System.Diagnostics;
using System.Numerics;
using System.Runtime.CompilerServices;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>A handle's open batch: takes messages, is sealed, and goes to the queues of the handle's partitions. Guarded by the handle's lock.</summary>
/// <remarks>
/// Queueing returns the partitions that the caller must start once it has left the lock, one bit each.
/// An unscoped batch is queued while it still takes messages, until its partition's sender seals it.
/// </remarks>
internal struct BatchBuilder(HandleBuffer owner, Lock gate, DispatchPartition[] partitions, BufferingSettings settings)
{
    private PendingBatch? _open;
    private long _openLife;

    public HandleSettlement Settlement { get; } = new();

    /// <summary>False once the sender has sealed it: the batch may be settled and in another life by then.</summary>
    public readonly bool HasOpen => _open is not null && _open.IsOpen(_openLife);

    /// <summary>True while what is open waits in no queue.</summary>
    public readonly bool HasHeld => HasOpen && !_open!.IsQueued;

    public readonly int HeldMessages => HasHeld ? _open!.Count : 0;

    /// <summary>The place of what is held in the buffer's order.</summary>
    public readonly long HeldOrder => _open!.Order;

    /// <summary>Adds a message, after sealing and queueing the batch that has no place for it.</summary>
    /// <returns>False when the byte budget has no room.</returns>
    public bool TryAppend(ReadOnlySpan<byte> payload, MessageHeader? header, int prepaid, out int starts)
    {
        starts = 0;
        var batch = _open;
        if (batch is null || !batch.IsOpen(_openLife))
        {
            batch = Open();
        }
        else if (IsFull(batch, payload.Length))
        {
            starts = SealAndQueue(FlushReason.BatchFull);
            batch = Open();
        }

        if (!batch.TryAppend(payload, header, prepaid))
        {
            if (batch.Count == 0)
            {
                _open = null;
                batch.Release();
            }

            return false;
        }

        if (BatchKitTracing.IsListening)
            RememberWriter(batch);
        return true;
    }

    /// <summary>Queues the open batch as it is; it takes messages until the sender comes for it.</summary>
    public int QueueOpen()
    {
        var batch = _open!;
        if (batch.IsQueued)
            return 0;
        var starts = Queue(batch);

        // Its only sender will be this caller, at once: sealing here saves taking the lock again.
        if (starts == 1 && partitions.Length == 1 && partitions[0].SendsInline)
        {
            batch.Seal();
            _open = null;
            partitions[0].CountUnscoped();
        }

        return starts;
    }

    public int SealAndQueue(FlushReason reason)
    {
        var batch = _open!;
        _open = null;

        // Read first: once sealed, a queued batch may be sent, settled and in another life before the next line.
        var isQueued = batch.IsQueued;
        batch.Seal();
        settings.Metrics.CountFlush(reason);
        return isQueued ? 0 : Queue(batch);
    }

    /// <summary>Takes out what waits in no queue, to make room. The caller settles it as dropped.</summary>
    public PendingBatch TakeHeld()
    {
        var batch = _open!;
        _open = null;
        batch.Seal();
        batch.Sequence = Settlement.Add();
        return batch;
    }

    private PendingBatch Open()
    {
        var batch = settings.Batches.Rent();
        batch.Open(gate, owner.Handle, Settlement, partitions.Length);
        batch.Order = settings.NextOrder();
        _open = batch;
        _openLife = batch.Life;
        return batch;
    }

    // Apart, because its large values would widen the frame of every write.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void RememberWriter(PendingBatch batch)
    {
        if (Activity.Current is { } writer)
            batch.Writers.Add(writer.Context);
    }

    private readonly bool IsFull(PendingBatch batch, int payloadBytes) =>
        batch.Bytes + (long)payloadBytes > settings.MaxBatchBytes || batch.Count >= settings.MaxBatchMessages;

    private readonly int Queue(PendingBatch batch)
    {
        batch.IsQueued = true;
        batch.QueuedAt = settings.Clock.Timestamp;
        batch.Sequence = Settlement.Add();
        var starts = 0;
        for (var route = 0; route < partitions.Length; route++)
        {
            if (partitions[route].Enqueue(batch.Routes[route]))
                starts |= 1 << route;
        }

        return starts;
    }

    /// <summary>Starts the senders of the partitions whose bits are set; call it outside the lock.</summary>
    public readonly void Start(int starts)
    {
        for (; starts != 0; starts &= starts - 1)
            partitions[BitOperations.TrailingZeroCount(starts)].Start();
    }
}
