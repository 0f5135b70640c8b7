using BatchKit.Broadcast;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>
/// Replaces a gateway without a loss: when it stops, it takes no more clients, and has the game send away those that it has, spread over a time. The game keeps the players until they come back by
/// another gateway.
/// </summary>
internal sealed class GatewayDrain(
    [FromKeyedServices(MudBuffers.Input)] BroadcastListener listener, [FromKeyedServices(MudBuffers.Input)] BroadcastTransport transport, ConnectedClients clients, MudOptions options,
    TimeProvider timeProvider, ILogger<GatewayDrain> logger) : IHostedLifecycleService
{
    // After the last client was sent away. A game that is not there closes no connection.
    private static readonly TimeSpan LongestEnd = TimeSpan.FromSeconds(10);

    public Task StartingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>The host stops services in the reverse order of their registration, so the clients are still connected here, and the buffers still carry.</summary>
    public async Task StoppingAsync(CancellationToken cancellationToken)
    {
        await listener.StopAsync(cancellationToken);
        transport.StopAccepting();
        var leaving = clients.ToList();
        try
        {
            await SendAwayAsync(leaving, cancellationToken);
            await clients.WhenNoneAsync().WaitAsync(LongestEnd, timeProvider, cancellationToken);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            // The next service that stops says goodbye to those that remain, and closes them.
        }

        var left = clients.ToList().Count;
        Log.Drained(logger, leaving.Count - left, leaving.Count, clients.LateLines);
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    private async Task SendAwayAsync(IReadOnlyList<PlayerConnection> leaving, CancellationToken cancellationToken)
    {
        var began = timeProvider.GetTimestamp();
        var told = new List<Task>(leaving.Count);
        for (var index = 0; index < leaving.Count; index++)
        {
            var early = (options.DrainTime * index / leaving.Count) - timeProvider.GetElapsedTime(began);
            if (early > TimeSpan.Zero)
                await Task.Delay(early, timeProvider, cancellationToken);
            told.Add(leaving[index].LeaveAsync());
        }

        await Task.WhenAll(told).WaitAsync(LongestEnd, timeProvider, cancellationToken);
    }
}
