using BatchKit.Transports;

namespace BatchKit.Testing;

/// <summary>A transport whose broker is away: every send fails at once, until the test brings the broker back. For a route beside the one under test.</summary>
/// <remarks>Thread-safe.</remarks>
/// <param name="next">Gets the sends once the broker is back. The caller owns it.</param>
/// <param name="exception">What sends throw meanwhile; an <see cref="IOException"/> by default.</param>
public sealed class AwayTransport(IBatchTransport next, Exception? exception = null) : IBatchTransport
{
    private volatile bool _isBack;

    /// <inheritdoc/>
    public bool SendsWithoutBlocking => next.SendsWithoutBlocking;

    /// <inheritdoc/>
    public int MaxMessageBytes => next.MaxMessageBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => next.MaxBatchBytes;

    /// <inheritdoc/>
    public int MaxSendBytes => next.MaxSendBytes;

    /// <inheritdoc/>
    public FrameDestination GetDestination(OutputHandle handle) => next.GetDestination(handle);

    /// <inheritdoc/>
    public string? LimitingSetting => next.LimitingSetting;

    /// <summary>From now on, sends pass on.</summary>
    public void ComeBack() => _isBack = true;

    /// <inheritdoc/>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) =>
        _isBack ? next.SendAsync(batches, cancellationToken) : ValueTask.FromException(exception ?? new IOException("The broker is away."));
}
