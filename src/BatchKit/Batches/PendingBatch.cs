using System.Diagnostics;
using System.Runtime.CompilerServices;
using BatchKit.Transports;

namespace BatchKit.Batches;

/// <summary>A batch from its first message until it is settled: takes messages while it is open, then is read-only. Pooled.</summary>
internal sealed class PendingBatch(PendingBatchPool pool)
{
    /// <summary>A batch that costs more counts repeated headers in full, so that it is full before its cost passes the largest <c>int</c>.</summary>
    public const int MaxCostToShare = 1 << 29;

    // Doubling keeps the interlocked budget off the path of most writes; a larger chunk would hold capacity that others need.
    private const int FirstChunkBytes = 256;
    private const int LargestChunkBytes = 1 << 16;

    // Guarded by Gate while open; read-only once sealed.
    private BatchMemory _memory = new();
    private int _sharedBytes;
    private int _reserved;
    private bool _isSealed;
    private bool _isClosed;
    private int _expired;
    private LatestSlots? _latest;
    private BatchWriters _writers;

    // The sender's side.
    private RouteOutcomes _outcomes;
    private int _references;
    private int _routesUnderWay;

    // Guarded by the lock of Ages, as WaitingRoutes and IsAgedAsQueued are.
    private BatchLinks _linksOfRoute;
    private BatchLinks _linksOfHandle;

    public PendingBatchPool Pool => pool;

    /// <summary>The list of waiting batches that it is in; null when it is in none.</summary>
    public BatchAges? Ages { get; set; }

    public bool IsAgedAsQueued { get; set; }

    /// <summary>In how many queues it still waits.</summary>
    public int WaitingRoutes { get; set; }

    /// <summary>The lock of the handle that the batch belongs to.</summary>
    public Lock Gate { get; private set; } = null!;

    public OutputHandle Handle { get; private set; }

    public HandleSettlement Settlement { get; private set; } = null!;

    public RoutedBatch[] Routes { get; private set; } = [];

    /// <summary>The next of the sealed batches that a scope holds back; guarded by the handle's lock.</summary>
    public PendingBatch? NextHeld { get; set; }

    public ref BatchMemory Memory => ref _memory;

    public int Count => _memory.Count;

    public int Bytes => _memory.UsedBytes;

    /// <summary>How many bytes it takes of the buffer's capacity: payloads, headers, and where each message ends.</summary>
    public int Cost { get; set; }

    /// <summary>How many bytes it takes in a frame at most, besides its name and <see cref="FrameWriter.OverheadBytes"/>. Less than it costs where headers repeat.</summary>
    public int FrameBytes => Cost - _sharedBytes;

    public bool IsSealed => Volatile.Read(ref _isSealed);

    /// <summary>Which use of the pooled batch this is.</summary>
    public long Version { get; private set; }

    /// <summary>Its place in the buffer's order, where that is needed.</summary>
    public long Order { get; set; }

    public bool IsQueued { get; set; }

    /// <summary>Its place among the batches of its handle.</summary>
    public long Sequence { get; set; }

    /// <summary>When it was queued, by the coarse clock.</summary>
    public long QueuedAt { get; set; }

    public ref BatchWriters Writers => ref _writers;

    /// <inheritdoc cref="RouteOutcomes.Worst"/>
    public SettlementOutcome Outcome => _outcomes.Worst;

    /// <inheritdoc cref="RouteOutcomes.RefusedMessages"/>
    public int RefusedMessages => _outcomes.RefusedMessages;

    public void Open(Lock gate, OutputHandle handle, HandleSettlement settlement, int routes)
    {
        Debug.Assert(Count == 0 && _reserved == 0, "A pooled batch is empty.");
        // A loop's next batch is mostly the one that it had before.
        if (!ReferenceEquals(Settlement, settlement))
            (Gate, Handle, Settlement) = (gate, handle, settlement);

        _references = 1;
        _outcomes.Begin(routes);
        if (Routes.Length == routes)
            return;
        Routes = new RoutedBatch[routes];
        for (var route = 0; route < routes; route++)
            Routes[route] = new RoutedBatch(this, route);
    }

    /// <summary>Adds one message.</summary>
    /// <param name="payload">Copied, or encoded in place.</param>
    /// <param name="header">Kept; it is immutable.</param>
    /// <param name="prepaid">Bytes already reserved for this message by a writer that waited.</param>
    /// <returns>How many bytes it has; negative when there is no capacity for it, or its encoder failed.</returns>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int Append<TPayload>(scoped ref TPayload payload, MessageHeader? header, int prepaid)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var cost = MessageCost.Of(ref payload, header);
        if (prepaid != 0)
        {
            _reserved += prepaid;
            Settlement.Budget.TakeOver(prepaid);
        }

        return _reserved - Cost >= cost || TryReserve(cost) ? AppendReserved(ref payload, header, cost) : -1;
    }

    /// <summary>Reserves what is expected, where that is easily had.</summary>
    public void TryReserveAhead(int cost)
    {
        if (!Settlement.Budget.HasWaiters && cost <= Settlement.Budget.Share && Settlement.Budget.TryReserve(cost))
            _reserved += cost;
    }

    /// <summary>Adds one message that costs no more than what is reserved.</summary>
    /// <inheritdoc cref="Append" path="/returns"/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int AppendReserved<TPayload>(scoped ref TPayload payload, MessageHeader? header, int cost)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var shared = header is null ? 0 : SharedBytesOf(header);
        if (TPayload.IsLatest)
            shared += LatestValues.KeyBytes - FrameFormat.MaxLatestBytes;
        var written = _memory.Append(ref payload, header);
        if (written < 0)
            return written;
        if (header?.TimeToLive is not null)
            _memory.SetDeadline(Count - 1, Settlement.DeadlineOf(header));
        Cost += cost - payload.MaxBytes + written;
        if (shared != 0)
            _sharedBytes += shared;
        return written;
    }

    /// <summary>Remembers the last message as the latest value of its key.</summary>
    /// <returns>Its slot.</returns>
    public int AddLatest(long key, LatestValues values)
    {
        var start = _memory.StartOf(Count - 1);
        return (_latest ??= values.RentSlots()).Add(new LatestSlot(key, Count - 1, start, _memory.UsedBytes - start));
    }

    public bool MayReplace(int slot, MessageHeader? header) => MessageHeader.MayReplace(header, _memory.HeaderOf(_latest!.MessageOf(slot)));

    /// <summary>How many bytes more it would take in a frame with a newer message in the place of a latest value.</summary>
    public int FrameGrowthOf(int slot, int payloadBytes, MessageHeader? header) =>
        GrowthOf(slot, payloadBytes, header) - _memory.SharedBytesGrowth(_latest!.MessageOf(slot), header);

    public bool MayGrowBy(int frameBytes, int maxBatchBytes) => Cost <= MaxCostToShare && (Count == 1 || FrameBytes + (long)frameBytes <= maxBatchBytes);

    /// <summary>Puts a newer message in the place of a latest value.</summary>
    /// <inheritdoc cref="Append" path="/returns"/>
    public int Replace<TPayload>(int slot, scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var growth = GrowthOf(slot, payload.MaxBytes, header);
        if (_reserved - Cost < growth && !TryReserve(growth))
            return -1;
        var written = _latest!.Write(slot, ref payload, _memory.Bytes);
        if (written < 0)
            return written;
        Cost += growth - payload.MaxBytes + written;
        _sharedBytes += _memory.ReplaceHeader(_latest.MessageOf(slot), header);
        if (_memory.MayExpire || header?.TimeToLive is not null)
            _memory.SetDeadline(_latest.MessageOf(slot), Settlement.DeadlineOf(header));
        if (_isClosed)
            ReturnUnused();
        return written;
    }

    /// <summary>What one more message with this header would cost above what a frame takes for it: a frame has a header that is repeated at once only once.</summary>
    public int SharedBytesOf(MessageHeader header) => Cost <= MaxCostToShare && _memory.EndsWith(header) ? header.EncodedBytes - FrameWriter.RepeatedHeaderBytes : 0;

    /// <summary>Whether it still takes messages in the given version; call it under the handle's lock.</summary>
    /// <remarks>The order of the two reads matters: a reset starts the next version before it removes the seal.</remarks>
    public bool IsOpen(long version) => !IsSealed && Version == version;

    /// <inheritdoc cref="IsOpen"/>
    public bool IsHeldOpen(long version) => IsOpen(version) && !IsQueued;

    /// <summary>Up to which cost it takes messages without more capacity or memory for their bytes.</summary>
    public int MostCost => Math.Min(_reserved, Cost + _memory.FreeBytes);

    /// <summary>Takes no more messages. One with latest values or deadlines is sealed by its sender: until then values may be replaced, and messages expire.</summary>
    public void Close()
    {
        _isClosed = _latest is not null || _memory.MayExpire;
        Settlement.Unsealed += _isClosed ? 1 : 0;
        if (_isClosed)
            ReturnUnused();
        else
            Seal();
    }

    /// <summary>Seals it from outside the handle's lock.</summary>
    /// <returns>False when it was sealed or closed already.</returns>
    public bool EnsureSealed()
    {
        if (IsSealed)
            return false;
        lock (Gate)
        {
            if (_isSealed)
                return false;
            Seal();
            return !_isClosed;
        }
    }

    /// <summary>Marks it as part of a send: until that has ended, dropping can't free what it reserved.</summary>
    public void MarkUnderWay()
    {
        if (Interlocked.Increment(ref _routesUnderWay) == 1)
            Settlement.Budget.AddUnderWay(_reserved);
        Ages?.CountLeft(this);
    }

    /// <summary>Returns what was reserved in advance: it would else be missing to others for as long as the batch waits.</summary>
    public void ReturnUnused()
    {
        (var unused, _reserved) = (_reserved - Cost, Cost);
        if (unused != 0)
            Settlement.Budget.ReturnUnused(unused);
    }

    public ref BatchLinks Links(bool ofHandle) => ref ofHandle ? ref _linksOfHandle : ref _linksOfRoute;

    /// <summary>Records its outcome on one route.</summary>
    /// <returns>True when that was the last route: the batch is settled, and the caller calls <see cref="Finish"/>.</returns>
    public bool SettleRoute(RoutedBatch route, SettlementOutcome outcome, Exception? failure, HashSet<int>? refused)
    {
        route.IsSettled = true;
        if (route.IsUnderWay)
            EndUnderWay(route);
        if (Routes.Length == 1)
            return _outcomes.SettleOnly(outcome, failure, refused);
        lock (Routes)
            return _outcomes.SettleOneOfSeveral(outcome, failure, refused);
    }

    /// <summary>Releases its capacity, tells its handle's flushes, and returns the memory with the last reference.</summary>
    public void Finish(int refusedMessages)
    {
        var lost = Outcome == SettlementOutcome.Acknowledged ? refusedMessages : Count;
        if (_expired > 0)
            pool.Drops?.Add(Handle, DropReason.Expired, _expired);
        (var reserved, _reserved) = (_reserved, 0);
        Ages?.Remove(this, Version);
        Settlement.Budget.Route.Release(reserved);
        Settlement.Settle(Sequence, reserved, lost + _expired, _outcomes.Failure);
        if (lost > 0)
            pool.Drops?.Add(Handle, _outcomes.LossReason, lost);

        // Last, because the batch may be in use again as soon as it is released.
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

    /// <summary>Gives up a batch that never had a message; call it under the handle's lock.</summary>
    public void GiveUpEmpty()
    {
        Ages?.Remove(this, Version);
        ReturnUnused();
        Release();
    }

    private void Seal()
    {
        Debug.Assert(Count > 0 && !IsSealed, "Only an open batch with messages is sealed.");
        var latest = _latest;
        _latest = null;
        var keyBytes = latest?.End(this, ref _memory) ?? 0;
        (Cost, _sharedBytes) = (Cost - keyBytes, _sharedBytes - keyBytes);
        ReturnUnused();
        Settlement.Unsealed -= _isClosed ? 1 : 0;
        _expired = _memory.MayExpire ? Settlement.RemoveExpired(ref _memory) : 0;
        foreach (var route in Routes)
            route.Take(Handle, in _memory);
        Volatile.Write(ref _isSealed, true);
    }

    private int GrowthOf(int slot, int payloadBytes, MessageHeader? header) =>
        MessageCost.Of(payloadBytes, header) - MessageCost.Of(_latest!.LengthOf(slot), _memory.HeaderOf(_latest.MessageOf(slot)));

    private void EndUnderWay(RoutedBatch route)
    {
        route.IsUnderWay = false;
        if (Interlocked.Decrement(ref _routesUnderWay) == 0)
            Settlement.Budget.AddUnderWay(-_reserved);
    }

    private bool TryReserve(int cost)
    {
        // The first message reserves what it takes, because most batches have one. Near the limit, and while others wait, only the missing bytes are requested.
        var missing = cost - (_reserved - Cost);
        var budget = Settlement.Budget;
        var chunk = _reserved == 0 || budget.HasWaiters ? missing : Math.Max(missing, Math.Clamp(_reserved, FirstChunkBytes, LargestChunkBytes));
        if (!budget.TryReserve(chunk) && !budget.TryReserve(chunk = missing))
            return false;
        _reserved += chunk;
        return true;
    }

    private void Reset()
    {
        // What outgrew the batch's own arrays goes back to the pool, so the routes must not keep it.
        var isOutgrown = _memory.Return();
        _writers.Clear();
        Cost = _sharedBytes = 0;
        NextHeld = null;
        IsQueued = _isClosed = false;
        _latest = null;
        _outcomes.Reset();
        foreach (var route in Routes)
            route.Reset(isOutgrown);
        Version++;
        Volatile.Write(ref _isSealed, false);
    }
}
