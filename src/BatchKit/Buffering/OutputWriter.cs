using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>Takes a message to its handle's buffer, and decides what happens when there is no room.</summary>
internal sealed class OutputWriter(HandleTable handles, AmbientScopes ambientScopes, Dispatcher dispatcher, BufferingSettings settings, int maxMessageBytes, string bufferName)
{
    public bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header)
    {
        ThrowIfTooLarge(payload.Length, header);
        return TryAppend(handle, payload, header, prepaid: 0) switch
        {
            AppendResult.Accepted => true,
            AppendResult.NoRoom => AppendByPolicy(handle, payload, header) == AppendResult.Accepted,
            _ => false,
        };
    }

    public void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header)
    {
        ThrowIfTooLarge(payload.Length, header);
        var result = TryAppend(handle, payload, header, prepaid: 0);
        if (result == AppendResult.Accepted)
            return;
        ThrowIfStopped(result);
        ThrowIfNotDone(AppendByPolicy(handle, payload, header));
    }

    public ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header, CancellationToken cancellationToken)
    {
        ThrowIfTooLarge(payload.Length, header);
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled(cancellationToken);
        var result = TryAppend(handle, payload.Span, header, prepaid: 0);
        if (result == AppendResult.Accepted)
            return default;
        ThrowIfStopped(result);
        if (settings.Options.Overflow == OverflowPolicy.Wait && !settings.SendContext.IsInside)
            return WaitAndWriteAsync(handle, payload, header, cancellationToken);
        ThrowIfNotDone(AppendByPolicy(handle, payload.Span, header));
        return default;
    }

    private async ValueTask WaitAndWriteAsync(
        OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header, CancellationToken cancellationToken)
    {
        var cost = PendingBatch.CostOf(payload.Length, header);
        var reservation = settings.Budget.ReserveAsync(cost, cancellationToken);

        // After the reservation has been asked for, every further write is queued at once, so what is held now is all there is.
        handles.FlushAll(FlushReason.RoomNeeded);
        await reservation.ConfigureAwait(false);
        var result = AppendResult.Retired;
        try
        {
            result = TryAppend(handle, payload.Span, header, prepaid: cost);
        }
        finally
        {
            // A router may throw as well.
            if (result != AppendResult.Accepted)
                settings.Budget.Release(cost);
        }

        ThrowIfStopped(result);
    }

    /// <returns>No room when the policy does not drop; retired when the buffer has stopped: then nothing more is dropped for it.</returns>
    private AppendResult AppendByPolicy(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header)
    {
        var result = AppendResult.NoRoom;
        if (settings.Options.Overflow is OverflowPolicy.Wait or OverflowPolicy.Fail)
            return result;
        while (settings.Options.Overflow == OverflowPolicy.DropOldest && result == AppendResult.NoRoom && TryDropOldest())
            result = TryAppend(handle, payload, header, prepaid: 0);
        if (result != AppendResult.NoRoom)
            return result;
        settings.Metrics.CountRefused();
        return AppendResult.Dropped;
    }

    // What is queued goes before what open scopes hold: it is found without walking the handles.
    private bool TryDropOldest()
    {
        if (dispatcher.TryDropOldest())
            return true;
        if (handles.FindOldestHeld()?.TakeHeld() is not { } held)
            return false;
        dispatcher.Drop(held);
        return true;
    }

    /// <returns>Retired only when the buffer has stopped.</returns>
    private AppendResult TryAppend(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header, int prepaid)
    {
        var result = AppendResult.Retired;
        while (result == AppendResult.Retired && handles.Find(handle) is { } buffer)
        {
            ambientScopes.Current?.Cover(buffer);
            result = buffer.Append(payload, header, prepaid);
        }

        return result;
    }

    private void ThrowIfTooLarge(int payloadBytes, MessageHeader? header)
    {
        var bytes = payloadBytes + (long)(header?.EncodedBytes ?? 0);
        if (bytes > maxMessageBytes)
            throw TooLarge(bytes);
    }

    private void ThrowIfNotDone(AppendResult result)
    {
        ThrowIfStopped(result);
        if (result == AppendResult.NoRoom)
            throw NoRoom();
    }

    private static void ThrowIfStopped(AppendResult result) => ObjectDisposedException.ThrowIf(result == AppendResult.Retired, typeof(OutputBuffer));

    private OutputOverflowException TooLarge(long bytes)
    {
        var isOwnLimit = maxMessageBytes == settings.Options.MaxMessageBytes;
        var limit = isOwnLimit ? nameof(OutputBufferOptions.MaxMessageBytes) : "the transport's MaxMessageBytes";
        return new OutputOverflowException(limit, maxMessageBytes, $"A message of {bytes} bytes is larger than {limit} ({maxMessageBytes}).", isPermanent: true);
    }

    private OutputOverflowException NoRoom() => new(
        nameof(OutputBufferOptions.MaxBufferedBytes), settings.Budget.Capacity,
        $"Output buffer '{bufferName}' has no room: {settings.Budget.Reserved} of {nameof(OutputBufferOptions.MaxBufferedBytes)} ({settings.Budget.Capacity}) bytes are accepted and not yet settled.", isPermanent: false);
}
