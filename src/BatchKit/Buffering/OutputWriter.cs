using System.Text;
using BatchKit.Batches;
using BatchKit.Dispatch;
using BatchKit.Transports;

namespace BatchKit.Buffering;

/// <summary>Adds a message to its handle's buffer, and decides what happens when there is no capacity for it.</summary>
internal sealed class OutputWriter(HandleTable handles, AmbientScopes ambientScopes, Dispatcher dispatcher, BufferSettings settings, IBatchTransport narrowest)
{
    // A handle without a limit of its own is named when it has this part of the buffer. With less it is one of many that have filled it.
    private const int GreedyShare = 8;

    private readonly int _routesLimit = narrowest.MaxMessageBytes;

    // Up to here a message fits whatever the name of its handle.
    private readonly int _leastLimit = Math.Min(narrowest.MaxMessageBytes - OutputHandle.MaxNameBytes, settings.MaxMessageBytes);

    /// <summary>A message that costs no more fits whatever the name of its handle.</summary>
    public int LeastLimit => Math.Max(0, _leastLimit);

    public int MaxBatchMessages => settings.MaxBatchMessages;

    /// <summary>Begins to write in a scope of its own and without a lock for each message.</summary>
    public MessageWriter Begin(IOutputBuffer output, OutputHandle handle, scoped in ScopeOpening opening)
    {
        while (handles.GetOrAdd(handle) is { } buffer)
        {
            var startsRun = Cover(buffer);
            var starts = default(SenderStarts);
            var scope = buffer.OpenScope(opening, ref starts);
            starts.StartAll();
            if (scope is { } opened)
                return WriterSegment.Begin(output, handle, opened, buffer, this, startsRun);
        }

        throw HandleTable.Stopped();
    }

    /// <summary>The calling flow's ambient scope, if there is one, takes a scope on a handle.</summary>
    public bool Cover(HandleBuffer buffer) => ambientScopes.Current is { } ambient && ambient.Cover(buffer);

    /// <param name="handle">The destination.</param>
    /// <param name="payload">The message.</param>
    /// <param name="header">Its header.</param>
    /// <param name="isRetried">True when the caller keeps a message that is refused, and tries again: it is not counted as dropped.</param>
    /// <returns>True when the message was accepted.</returns>
    public bool TryWrite<TPayload>(OutputHandle handle, scoped ref TPayload payload, MessageHeader? header, bool isRetried = false)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        ThrowIfTooLarge(handle, payload.MaxBytes, header);
        var result = TryAppend(handle, ref payload, header, prepaid: 0);
        if (result == AppendResult.NoCapacity)
            result = AppendByPolicy(handle, ref payload, header, isRetried);
        payload.Release();
        return result == AppendResult.Accepted;
    }

    public void Write<TPayload>(OutputHandle handle, scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        ThrowIfTooLarge(handle, payload.MaxBytes, header);
        var result = TryAppend(handle, ref payload, header, prepaid: 0);
        if (result != AppendResult.Accepted)
        {
            ThrowIfStopped(result);
            WriteByPolicy(handle, ref payload, header);
        }

        payload.Release();
    }

    /// <summary>Every error is in the task, except that of an encoder's call: an encoder can't await it.</summary>
    public ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> bytes, MessageHeader? header, CancellationToken cancellationToken)
    {
        EncoderGuard.ThrowIfEncoding();
        try
        {
            return cancellationToken.IsCancellationRequested ? ValueTask.FromCanceled(cancellationToken) : WriteOrWaitAsync(handle, bytes, header, cancellationToken);
        }
        catch (Exception failure)
        {
            return ValueTask.FromException(failure);
        }
    }

    private ValueTask WriteOrWaitAsync(OutputHandle handle, ReadOnlyMemory<byte> bytes, MessageHeader? header, CancellationToken cancellationToken)
    {
        ThrowIfTooLarge(handle, bytes.Length, header);
        var payload = new CopiedPayload(bytes.Span);
        var result = TryAppend(handle, ref payload, header, prepaid: 0);
        if (result == AppendResult.Accepted)
            return default;
        ThrowIfStopped(result);
        if (settings.Overflow == OverflowPolicy.Wait && !settings.SendContext.IsInside)
            return WaitAndWriteAsync(handle, bytes, header, cancellationToken);
        WriteByPolicy(handle, ref payload, header);
        return default;
    }

    private async ValueTask WaitAndWriteAsync(
        OutputHandle handle, ReadOnlyMemory<byte> bytes, MessageHeader? header, CancellationToken cancellationToken)
    {
        var cost = MessageCost.Of(bytes.Length, header);
        var buffer = handles.BeginWait(handle);
        var budget = buffer.Budget;
        var (hasShare, hasCapacity, result) = (false, false, AppendResult.Retired);
        settings.Metrics.BeginWait();
        try
        {
            if (!budget.Queue.TryReserveAtOnce(cost))
            {
                // The request for capacity stands, so later writes are queued at once. Only output that scopes hold or that lingers now has to be queued here.
                var share = budget.Queue.ReserveAsync(cost, cancellationToken);
                buffer.Flush(FlushReason.CapacityNeeded);
                await share.ConfigureAwait(false);
            }

            hasShare = true;
            await ReserveAsync(budget.Route, cost, cancellationToken).ConfigureAwait(false);
            hasCapacity = true;
            result = TryAppendPrepaid(handle, bytes.Span, header, cost);
        }
        finally
        {
            // A router may throw as well.
            if (hasCapacity && result != AppendResult.Accepted)
                budget.Route.Release(cost);
            if (hasShare)
                budget.Queue.Redeem(cost);
            lock (buffer.Gate)
                budget.Waits--;
            settings.Metrics.EndWait();
        }

        ThrowIfStopped(result);
    }

    private ValueTask ReserveAsync(RouteBudget route, int cost, CancellationToken cancellationToken)
    {
        // A writer that has waited for its handle's share only holds up no other handle's output.
        if (route.TryReserveAtOnce(cost))
            return default;
        var reservation = route.ReserveAsync(cost, cancellationToken);

        // As above. Output of other routes is held on, unless only theirs can free what the message needs above the route's own part.
        if (route.IsEnoughFor(cost))
            handles.Held[route.Index].FlushAll(FlushReason.CapacityNeeded);
        else
            Array.ForEach(handles.Held, static held => held.FlushAll(FlushReason.CapacityNeeded));
        dispatcher.EndLinger();
        return reservation;
    }

    private AppendResult TryAppendPrepaid(OutputHandle handle, ReadOnlySpan<byte> bytes, MessageHeader? header, int prepaid)
    {
        var payload = new CopiedPayload(bytes);
        return TryAppend(handle, ref payload, header, prepaid);
    }

    private void WriteByPolicy<TPayload>(OutputHandle handle, scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var result = AppendByPolicy(handle, ref payload, header);
        ThrowIfStopped(result);
        if (result == AppendResult.NoCapacity)
            throw Full(handle, MessageCost.Of(ref payload, header));

        // This call does not report the loss, so the end of its scope or a flush does.
        if (result == AppendResult.Dropped && handles.TryGet(handle) is { } buffer)
        {
            lock (buffer.Gate)
                buffer.Output.Settlement.CountDroppedAtWrite();
        }
    }

    /// <returns>No capacity when the policy does not drop; retired when the buffer has stopped: then nothing more is dropped for it.</returns>
    private AppendResult AppendByPolicy<TPayload>(OutputHandle handle, scoped ref TPayload payload, MessageHeader? header, bool isRetried = false)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var result = AppendResult.NoCapacity;
        if (settings.Overflow is OverflowPolicy.Wait or OverflowPolicy.Fail)
            return result;

        // When it could not fit even beside only what is under way, dropping older output would only lose more.
        var cost = MessageCost.Of(ref payload, header);
        while (settings.DropsOldest && result == AppendResult.NoCapacity && handles.TryGet(handle)?.Budget is { } budget && budget.CouldFit(cost) && TryDropOldest(budget, cost))
            result = TryAppend(handle, ref payload, header, prepaid: 0);
        if (result != AppendResult.NoCapacity || isRetried)
            return result;
        settings.Metrics.CountRefused();
        settings.Drops?.Add(handle, DropReason.Overflow, messages: 1);
        return AppendResult.Dropped;
    }

    // A handle that has used up its share loses its own oldest output. Otherwise, and when nothing of its own waits, the oldest of its routes goes, queued output before what open scopes hold.
    /// <returns>False when nothing waits that could be dropped, or encoders that hang have it.</returns>
    private bool TryDropOldest(HandleBudget budget, int cost)
    {
        var ages = budget.Route.Ages!;
        for (var found = (budget.IsUsedUp(cost) ? ages.FindOldest(budget) : null) ?? ages.FindOldest(); found is { } oldest; found = ages.FindHeldBehind(oldest))
        {
            if (!oldest.IsHeld && !Dispatcher.TryDropQueued(oldest))
                ages.Remove(oldest.Batch, oldest.Version);
            if (!oldest.IsHeld || handles.TryGet(oldest.Handle) is not { } buffer)
                return true;
            if (!HandleTable.IsFree(buffer, HandleBuffer.LongestWaitMilliseconds))
                continue;
            if (buffer.TakeHeld() is { } held)
                dispatcher.Drop(held);
            return true;
        }

        return false;
    }

    /// <returns>Retired only when the buffer has stopped; <see cref="AppendResult.EncodeFirst"/> never.</returns>
    private AppendResult TryAppend<TPayload>(OutputHandle handle, scoped ref TPayload payload, MessageHeader? header, int prepaid)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var result = AppendResult.Retired;
        while (result == AppendResult.Retired && handles.GetOrAdd(handle) is { } buffer)
        {
            var startsRun = Cover(buffer);
            result = buffer.Append(ref payload, header, prepaid, startsRun);
            if (TPayload.MayFail && result == AppendResult.EncodeFirst)
                result = AppendEncoded(buffer, ref payload, header, prepaid, startsRun);
        }

        if (result == AppendResult.NoCapacity)
            payload.ThrowIfFailed();
        return result;
    }

    private static AppendResult AppendEncoded<TPayload>(HandleBuffer buffer, scoped ref TPayload payload, MessageHeader? header, int prepaid, bool startsRun)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        bool hasRoom;
        var cost = MessageCost.Of(ref payload, header);
        lock (buffer.Gate)
            hasRoom = TPayload.IsLatest || buffer.Output.HasRoomFor(cost);
        if (hasRoom && payload.TryEncode())
            return buffer.Append(ref payload, header, prepaid, startsRun);

        // The scope has noted the handle as the one that was written last.
        lock (buffer.Gate)
        {
            if (startsRun)
                buffer.Output.EndRun();
        }

        return AppendResult.NoCapacity;
    }

    public void ThrowIfTooLarge(OutputHandle handle, int payloadBytes, MessageHeader? header)
    {
        var bytes = payloadBytes + (long)(header?.EncodedBytes ?? 0);
        if (bytes > _leastLimit)
            ThrowIfAboveLimit(handle, bytes);
    }

    // The buffer keeps a name once, but a frame or packet has it beside each message that is alone in it.
    private void ThrowIfAboveLimit(OutputHandle handle, long bytes)
    {
        if (bytes > settings.MaxMessageBytes)
            throw TooLarge(nameof(OutputBufferOptions.MaxMessageBytes), settings.MaxMessageBytes, $"A message of {bytes} bytes", $"{nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxMessageBytes)}");
        var nameBytes = handle.Name is { } name ? Encoding.UTF8.GetByteCount(name) : 0;
        if (bytes + nameBytes > _routesLimit)
        {
            throw TooLarge("the transport's MaxMessageBytes", _routesLimit, bytes > _routesLimit ? $"A message of {bytes} bytes" : $"A message of {bytes} bytes, with the {nameBytes} of its handle's name,",
                narrowest.LimitingSetting ?? "the largest frame or packet in the transport's options");
        }
    }

    private static void ThrowIfStopped(AppendResult result)
    {
        if (result == AppendResult.Retired)
            throw HandleTable.Stopped();
    }

    private static OutputOverflowException TooLarge(string limit, int limitBytes, string message, string setting) =>
        new(limit, limitBytes, $"{message} is larger than {limit} ({limitBytes}). Split it into several messages, or raise {setting}.", isPermanent: true);

    private OutputOverflowException Full(OutputHandle handle, int cost)
    {
        if (cost > settings.Budget.MostForOne)
            return TooLarge(nameof(OutputBufferOptions.MaxBufferedBytes), (int)settings.Budget.MostForOne, $"A message that takes {cost} bytes", $"{nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxBufferedBytes)}");
        var buffer = settings.Name.Length == 0 ? "unnamed output buffer" : $"output buffer '{settings.Name}'";
        const string remedy = $"Call WriteAsync, which waits for capacity while {nameof(OutputBufferOptions.Overflow)} is {nameof(OverflowPolicy.Wait)}, or raise ";
        var budget = handles.TryGet(handle)?.Budget;
        if (budget is not null && budget.IsUsedUp(cost) && (settings.MaxHandleBytes is not null || budget.Pending >= settings.Budget.Capacity / GreedyShare))
        {
            return new OutputOverflowException(
                nameof(OutputBufferOptions.MaxBufferedBytesPerHandle), budget.Share,
                $"The handle has used up its share of the {buffer}: {budget.Pending} of {nameof(OutputBufferOptions.MaxBufferedBytesPerHandle)} ({budget.Share}) bytes are accepted and not yet settled. "
                + $"{remedy}{nameof(OutputBufferOptions.MaxBufferedBytesPerHandle)}.", isPermanent: false);
        }

        return new OutputOverflowException(
            nameof(OutputBufferOptions.MaxBufferedBytes), settings.Budget.Capacity,
            $"The {buffer} is full: {settings.Budget.Reserved} of {nameof(OutputBufferOptions.MaxBufferedBytes)} ({settings.Budget.Capacity}) bytes are accepted and not yet settled{settings.Budget.DescribeLeft()}. "
            + $"{remedy}{nameof(OutputBufferOptions.MaxBufferedBytes)}.", isPermanent: false);
    }
}

/// <summary>The outcome of an append.</summary>
internal enum AppendResult
{
    Accepted,

    /// <summary>The byte budget has no capacity, and the overflow policy decides; or the message's encoder failed.</summary>
    NoCapacity,

    /// <summary>The handle's buffer was removed as idle meanwhile: look it up again.</summary>
    Retired,

    /// <summary>There was no capacity, and the overflow policy dropped the message and counted it.</summary>
    Dropped,

    /// <summary>The handle has queued output that its sender can't seal without the lock. An encoder is foreign code, so it runs before the lock is taken, once there is capacity, and its bytes are copied.</summary>
    EncodeFirst,
}
