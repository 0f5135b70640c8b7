using BatchKit.Transports;

namespace BatchKit.TransportSpecification.Support;

/// <summary>A send that waits until the test lets it go on.</summary>
public sealed class StalledSend
{
    private readonly IBatchTransport _next;
    private readonly TaskCompletionSource _entered = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource _released = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly bool _ignoresCancellation;

    internal StalledSend(IBatchTransport next, bool ignoresCancellation)
    {
        _next = next;
        _ignoresCancellation = ignoresCancellation;
    }

    /// <summary>Completes when the send has begun; throws at a test's deadline.</summary>
    public Task EnteredAsync() => _entered.Task.WithinDeadline();

    /// <summary>Lets it pass on and complete.</summary>
    public void Release() => _released.TrySetResult();

    /// <summary>Lets it fail, with nothing passed on.</summary>
    public void Fail(Exception? exception = null) =>
        _released.TrySetException(exception ?? new IOException("The script says that this stalled send fails."));

    internal async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        _entered.TrySetResult();
        await _released.Task.WaitAsync(_ignoresCancellation ? CancellationToken.None : cancellationToken);
        await _next.SendAsync(batches, cancellationToken);
    }
}
