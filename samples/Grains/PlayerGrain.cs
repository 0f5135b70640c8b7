using System.Collections.Concurrent;
using BatchKit;
using BatchKit.Transports;
using Orleans.Runtime;

namespace Grains;

public interface IPlayerObserver : IGrainObserver
{
    Task ReceiveAsync(byte[] output);
}

public interface IPlayerGrain : IGrainWithIntegerKey
{
    Task ConnectAsync(IPlayerObserver observer);

    Task ListAsync(int items);
}

internal sealed class PlayerGrain(IOutputBuffer output, ObserverTransport transport) : Grain, IPlayerGrain
{
    private OutputHandle Player => OutputHandle.Connection(this.GetPrimaryKeyLong());

    public Task ConnectAsync(IPlayerObserver observer)
    {
        transport.Observers[Player] = observer;
        return Task.CompletedTask;
    }

    public async Task ListAsync(int items)
    {
        await using (output.BeginBufferingScope(Player))
            for (var item = 1; item <= items; item++)
                output.Write(Player, $"item {item}\r\n");
    }
}

internal sealed class ObserverTransport : IBatchTransport
{
    public ConcurrentDictionary<OutputHandle, IPlayerObserver> Observers { get; } = new();

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = Enumerable.Repeat(BatchOutcome.Refused, batches.Length).ToArray();
        for (var index = 0; index < outcomes.Length; index++)
        {
            var batch = batches.Span[index];
            if (!Observers.TryGetValue(batch.Handle, out var observer))
                continue;
            try
            {
                await observer.ReceiveAsync(batch.Payload.ToArray()).WaitAsync(cancellationToken);
                outcomes[index] = BatchOutcome.Acknowledged;
            }
            catch (ClientNotAvailableException)
            {
                Observers.TryRemove(new(batch.Handle, observer));
            }
        }

        if (outcomes.Contains(BatchOutcome.Refused))
            throw new BatchSendException([.. outcomes], "A player is gone.");
    }
}
