using MudServer.Clients;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>Runs the game loop from the host's start to its stop, and delivers the goodbye.</summary>
internal sealed class GameRunner(
    GameLoop loop, GameInput input, IOutputBuffer output, ILogger<GameRunner> logger, ConnectedClients? clients = null) : IHostedLifecycleService
{
    private static readonly TimeSpan LongestGoodbye = TimeSpan.FromSeconds(5);

    private Task _running = Task.CompletedTask;

    public Task StartingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartAsync(CancellationToken cancellationToken)
    {
        _running = Task.Run(loop.RunAsync, CancellationToken.None);
        return Task.CompletedTask;
    }

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>
    /// Waits until the loop has answered the input and said goodbye, until this is delivered, if the broker is available, and until the clients of this
    /// process have disconnected. The host stops services in the reverse order of their registration, so the clients are still connected here.
    /// </summary>
    public async Task StoppingAsync(CancellationToken cancellationToken)
    {
        input.Complete();
        try
        {
            await _running.WaitAsync(LongestGoodbye, cancellationToken);
            await output.FlushAsync(cancellationToken).AsTask().WaitAsync(LongestGoodbye, cancellationToken);
        }
        catch (Exception exception) when (exception is OutputDeliveryException or TimeoutException or OperationCanceledException)
        {
            Log.LastWordsLost(logger, exception.Message);
            return;
        }

        if (clients is not null)
            await WaitForClientsAsync(clients, cancellationToken);
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    private static async Task WaitForClientsAsync(ConnectedClients clients, CancellationToken cancellationToken)
    {
        try
        {
            await clients.WhenNoneAsync().WaitAsync(LongestGoodbye, cancellationToken);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            // New clients, and those that do not read, are closed by the next service that stops.
        }
    }
}
