using System.Collections.Concurrent;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Orleans.Runtime;

namespace BatchKit.Pages.Tests.Orleans;

/// <summary>The program that docs/orleans.md shows.</summary>
internal static class PlayerServices
{
    public static void Add(IServiceCollection services)
    {
        services.AddSingleton<ObserverTransport>();
        services.AddBatchKit().UseLocal(provider => provider.GetRequiredService<ObserverTransport>());
    }
}

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
        var outcomes = new BatchOutcome[batches.Length];
        for (var index = 0; index < outcomes.Length; index++)
            outcomes[index] = await TrySendAsync(batches.Span[index], cancellationToken) ? BatchOutcome.Acknowledged : BatchOutcome.Refused;
        if (outcomes.Contains(BatchOutcome.Refused))
            throw new BatchSendException([.. outcomes], "A player is gone.");
    }

    private async Task<bool> TrySendAsync(MessageBatch batch, CancellationToken cancellationToken)
    {
        if (!_observers.TryGetValue(batch.Handle, out var observer))
            return false;
        try
        {
            await observer.ReceiveAsync(batch.Payload.ToArray()).WaitAsync(cancellationToken);
            return true;
        }
        catch (ClientNotAvailableException)
        {
            _observers.TryRemove(KeyValuePair.Create(batch.Handle, observer));
            return false;
        }
    }
}
