namespace BatchKit.Postgres.Receiving;

/// <summary>How far a receiver's stop has come. Each phase includes the ones before it.</summary>
internal sealed class StopPhases : IDisposable
{
    private readonly CancellationTokenSource _stopping = new();
    private readonly CancellationTokenSource _abandoning = new();
    private readonly CancellationTokenSource _closing = new();

    /// <summary>Nothing more is claimed.</summary>
    public CancellationToken Stopping => _stopping.Token;

    /// <summary>Handlers are waited for no longer; what they held is given back.</summary>
    public CancellationToken Abandoning => _abandoning.Token;

    /// <summary>The server is waited for no longer.</summary>
    public CancellationToken Closing => _closing.Token;

    public Task StopAsync() => CancelAsync(_stopping);

    public Task AbandonAsync() => CancelAsync(_abandoning);

    public Task CloseAsync() => CancelAsync(_closing);

    public void Dispose()
    {
        _stopping.Dispose();
        _abandoning.Dispose();
        _closing.Dispose();
    }

    // What waits for the server is told by Npgsql's own callback, which throws when its connection is being closed at that moment (seen with 10.0.0: ObjectDisposedException). The stop goes on.
    private static async Task CancelAsync(CancellationTokenSource phase) => await phase.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
}
