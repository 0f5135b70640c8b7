using MudServer.Clients;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>Runs the game loop from the host's start to its stop, and sees to it that the last words leave.</summary>
internal sealed class GameRunner(
    GameLoop loop, GameInput input, IOutputBuffer output, ILogger<GameRunner> logger, ClientCount? clients = null) : IHostedLifecycleService
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
    /// Lets the loop answer what has arrived and say goodbye, then waits until that is delivered, if the way there is open, and until the clients of this
    /// process, which it closes, are gone. The host stops what was registered last first, so the clients are still there.
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

    private static async Task WaitForClientsAsync(ClientCount clients, CancellationToken cancellationToken)
    {
        try
        {
            await clients.WhenNoneAsync().WaitAsync(LongestGoodbye, cancellationToken);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            // Who has come since, or does not read, is closed by the host's next step.
        }
    }
}
