using BatchKit.Transports;

namespace BatchKit.TestSupport;

/// <summary>A next hop that does not end when its send is cancelled, and whose callback of that throws.</summary>
public sealed class StuckHop : IBatchTransport
{
    private readonly TaskCompletionSource _entered = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource _released = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Completes when it has a send in hand.</summary>
    public Task Entered => _entered.Task;

    /// <summary>Lets it end.</summary>
    public void Release() => _released.TrySetResult();

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        cancellationToken.Register(static () => throw new InvalidOperationException("The callback is broken."));
        _entered.TrySetResult();
        await _released.Task.ConfigureAwait(false);
    }
}
