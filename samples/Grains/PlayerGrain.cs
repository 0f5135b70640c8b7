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

internal sealed class PlayerGrain(IOutputBuffer output, ObserverTransport observers) : Grain, IPlayerGrain
{
    private OutputHandle Player => OutputHandle.Connection(this.GetPrimaryKeyLong());

    public Task ConnectAsync(IPlayerObserver observer)
    {
        observers.Connect(Player, observer);
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
    private readonly ConcurrentDictionary<OutputHandle, IPlayerObserver> _observers = new();

    public void Connect(OutputHandle player, IPlayerObserver observer) => _observers[player] = observer;

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = new List<BatchOutcome>();
        foreach (var batch in batches.ToArray())
            outcomes.Add(await TrySendAsync(batch, cancellationToken));
        if (outcomes.Contains(BatchOutcome.Refused))
            throw new BatchSendException([.. outcomes], "A player is gone.");
    }

    private async Task<BatchOutcome> TrySendAsync(MessageBatch batch, CancellationToken cancellationToken)
    {
        if (!_observers.TryGetValue(batch.Handle, out var observer))
            return BatchOutcome.Refused;
        try
        {
            await observer.ReceiveAsync(batch.Payload.ToArray()).WaitAsync(cancellationToken);
            return BatchOutcome.Acknowledged;
        }
        catch (ClientNotAvailableException)
        {
            _observers.TryRemove(KeyValuePair.Create(batch.Handle, observer));
            return BatchOutcome.Refused;
        }
    }
}
