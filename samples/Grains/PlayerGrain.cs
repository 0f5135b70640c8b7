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
        var outcomes = new BatchOutcome[batches.Length];
        var failures = new Dictionary<OutputHandle, Exception>();
        for (var index = 0; index < batches.Length && !cancellationToken.IsCancellationRequested; index++)
        {
            // A player's later batches wait for a failed one.
            if (failures.ContainsKey(batches.Span[index].Handle))
                continue;
            try
            {
                outcomes[index] = await TrySendAsync(batches.Span[index], cancellationToken) ? BatchOutcome.Acknowledged : BatchOutcome.Refused;
            }
            catch (Exception exception)
            {
                failures.Add(batches.Span[index].Handle, exception);
            }
        }

        if (outcomes.Any(outcome => outcome != BatchOutcome.Acknowledged))
            throw new BatchSendException([.. outcomes], "A player is gone, or a call failed.", failures.Values.FirstOrDefault());
    }

    private async ValueTask<bool> TrySendAsync(MessageBatch batch, CancellationToken cancellationToken)
    {
        if (!Observers.TryGetValue(batch.Handle, out var observer))
            return false;
        try
        {
            await observer.ReceiveAsync(batch.Payload.ToArray()).WaitAsync(cancellationToken);
            return true;
        }
        catch (ClientNotAvailableException)
        {
            Observers.TryRemove(new(batch.Handle, observer));
            return false;
        }
    }
}
