namespace BatchKit.TrimSmoke;

/// <summary>Cancels its first write.</summary>
internal sealed class CancelledOnceStream : MemoryStream
{
    private bool _isCancelled;

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (_isCancelled)
            return base.WriteAsync(buffer, cancellationToken);
        _isCancelled = true;
        throw new OperationCanceledException("The stream is being closed.");
    }
}
