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

    public Task StopAsync() => _stopping.CancelAsync();

    public Task AbandonAsync() => _abandoning.CancelAsync();

    public Task CloseAsync() => _closing.CancelAsync();

    public void Dispose()
    {
        _stopping.Dispose();
        _abandoning.Dispose();
        _closing.Dispose();
    }
}
