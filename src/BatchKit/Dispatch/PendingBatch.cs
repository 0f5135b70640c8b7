using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace BatchKit.Dispatch;

/// <summary>A batch from its first message until it is settled: takes messages while it is open, then is read-only. Pooled.</summary>
internal sealed class PendingBatch(PendingBatchPool pool)
{
    // Doubling keeps the interlocked budget off the path of most writes; beyond the second figure it would hold room that others need.
    private const int FirstChunkBytes = 256;
    private const int LargestChunkBytes = 1 << 16;

    // Guarded by Gate while open; read-only once sealed.
    private BatchMemory _memory = new();
    private int _cost;
    private int _reserved;
    private bool _isSealed;

    // The sender's side.
    private int _routesLeft;
    private int _references;

    public PendingBatchPool Pool => pool;

    /// <summary>The lock of the handle that the batch belongs to.</summary>
    public Lock Gate { get; private set; } = null!;

    public OutputHandle Handle { get; private set; }

    public HandleSettlement Settlement { get; private set; } = null!;

    public RoutedBatch[] Routes { get; private set; } = [];

    public int Count => _memory.Count;

    public int Bytes => _memory.UsedBytes;

    /// <summary>What it takes in all: payloads, headers, and where each message ends.</summary>
    public int Cost => _cost;

    public bool IsSealed => Volatile.Read(ref _isSealed);

    /// <summary>Which use of the pooled batch this is.</summary>
    public long Life { get; private set; }

    /// <summary>Its place in the buffer's order, kept where the oldest may have to go.</summary>
    public long Order { get; set; }

    public bool IsQueued { get; set; }

    /// <summary>Its place among the batches of its handle.</summary>
    public long Sequence { get; set; }

    /// <summary>When it was queued, by the coarse clock.</summary>
    public long QueuedAt { get; set; }

    public WriterContexts Writers { get; } = new();

    /// <summary>The worst that became of it on any route so far.</summary>
    public Settled Outcome { get; private set; }

    public Exception? Failure { get; private set; }

    public void Open(Lock gate, OutputHandle handle, HandleSettlement settlement, int routes)
    {
        Debug.Assert(Count == 0 && _reserved == 0, "A pooled batch is empty.");
        // A loop's next batch is mostly the one that it had before.
        if (!ReferenceEquals(Settlement, settlement))
        {
            Gate = gate;
            Handle = handle;
            Settlement = settlement;
        }

        _references = 1;
        _routesLeft = routes;
        if (Routes.Length == routes)
            return;
        Routes = new RoutedBatch[routes];
        for (var route = 0; route < routes; route++)
            Routes[route] = new RoutedBatch(this, route);
    }

    /// <summary>Adds one message, or says that there is no room for it.</summary>
    /// <param name="payload">Copied.</param>
    /// <param name="header">Kept; it is immutable.</param>
    /// <param name="prepaid">Bytes already reserved for this message by a writer that waited.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryAppend(ReadOnlySpan<byte> payload, MessageHeader? header, int prepaid)
    {
        var cost = CostOf(payload.Length, header);
        if (prepaid != 0)
            _reserved += prepaid;
        if (_reserved - _cost < cost && !TryReserve(cost))
            return false;
        _cost += cost;
        _memory.Append(payload, header);
        return true;
    }

    /// <summary>Whether it still takes messages in the given life; call it under the handle's lock.</summary>
    /// <remarks>The order of the two reads matters: a reset starts the next life before it takes the seal off.</remarks>
    public bool IsOpen(long life) => !IsSealed && Life == life;

    public static int CostOf(int payloadBytes, MessageHeader? header) =>
        payloadBytes + OutputBufferOptions.MessageOverheadBytes + (header?.EncodedBytes ?? 0);

    public void Seal()
    {
        Debug.Assert(Count > 0 && !IsSealed, "Only an open batch with messages is sealed.");
        foreach (var route in Routes)
            route.Assign(Handle, _memory.Bytes.AsMemory(0, Bytes), _memory.Ends, _memory.Headers, Count);
        Volatile.Write(ref _isSealed, true);
    }

    /// <summary>Seals it from outside the handle's lock.</summary>
    /// <returns>False when it was sealed already.</returns>
    public bool EnsureSealed()
    {
        if (IsSealed)
            return false;
        lock (Gate)
        {
            if (_isSealed)
                return false;
            Seal();
            return true;
        }
    }

    /// <summary>Says what became of it on one route.</summary>
    /// <returns>True when that was the last one, and the batch is settled.</returns>
    public bool SettleRoute(RoutedBatch route, Settled outcome, Exception? failure)
    {
        route.IsSettled = true;
        if (Routes.Length == 1)
        {
            Outcome = outcome;
            Failure = failure;
            return true;
        }

        lock (Routes)
        {
            if (outcome > Outcome)
            {
                Outcome = outcome;
                Failure = failure;
            }

            return --_routesLeft == 0;
        }
    }

    /// <summary>Gives the bytes back to the budget; the memory follows with the last reference.</summary>
    public void ReleaseRoom()
    {
        pool.Budget.Release(_reserved);
        _reserved = 0;
        Release();
    }

    /// <summary>Keeps the memory while an abandoned send may still read it.</summary>
    public void AddReference() => Interlocked.Increment(ref _references);

    public void Release()
    {
        if (Volatile.Read(ref _references) != 1 && Interlocked.Decrement(ref _references) != 0)
            return;
        Reset();
        pool.Return(this);
    }

    private bool TryReserve(int cost)
    {
        // Near the limit, exactly what is missing is asked for.
        var missing = cost - (_reserved - _cost);
        var chunk = Math.Max(missing, Math.Clamp(_reserved, FirstChunkBytes, LargestChunkBytes));
        if (pool.Budget.TryReserve(chunk))
            _reserved += chunk;
        else if (pool.Budget.TryReserve(missing))
            _reserved += missing;
        else
            return false;
        return true;
    }

    private void Reset()
    {
        _memory.Return();
        Writers.Clear();
        _cost = 0;
        IsQueued = false;
        Outcome = Settled.Acknowledged;
        Failure = null;
        foreach (var route in Routes)
            route.Clear();
        Life++;
        Volatile.Write(ref _isSealed, false);
    }
}
