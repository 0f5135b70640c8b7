using BatchKit.Transports;

namespace MudServer.Hosting;

/// <summary>Simulates a broker in one process: it carries the same frames, and confirms each send after a delay.</summary>
internal sealed class SimulatedBroker(IBatchTransport next, TimeSpan confirmTime, TimeProvider timeProvider) : IBatchTransport, IAsyncDisposable
{
    // A timer is accurate to about a millisecond, so shorter delays are waited for on the sending thread.
    private static readonly TimeSpan ShortestTimer = TimeSpan.FromMilliseconds(10);

    private readonly InMemoryTransport _frames = new(next);

    public BatchReceiver Receiver => _frames.Receiver;

    public int MaxMessageBytes => _frames.MaxMessageBytes;

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var startedAt = timeProvider.GetTimestamp();
        await _frames.SendAsync(batches, cancellationToken);
        if (confirmTime >= ShortestTimer)
            await Task.Delay(confirmTime, timeProvider, cancellationToken);
        while (timeProvider.GetElapsedTime(startedAt) < confirmTime)
            Thread.Yield();
    }

    public ValueTask DisposeAsync() => _frames.DisposeAsync();
}
