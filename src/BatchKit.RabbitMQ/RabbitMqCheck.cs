namespace BatchKit.RabbitMQ;

/// <summary>Checks again and again what a consumer needs. One check at a time.</summary>
/// <remarks>The client's calls may never end when their connection is lost (version 7.2.2, issues 1968 and 1976), so nothing waits for a check without a limit.</remarks>
/// <param name="check">Returns how many frames wait in the queue; null when it does not exist.</param>
/// <param name="limit">How long one is waited for at a time.</param>
/// <param name="timeProvider">Measures that.</param>
/// <param name="stopping">Ends the waits, and the check.</param>
internal sealed class RabbitMqCheck(Func<CancellationToken, Task<uint?>> check, TimeSpan limit, TimeProvider timeProvider, CancellationToken stopping) : IAsyncDisposable
{
    private static readonly TimeSpan EndLimit = TimeSpan.FromMilliseconds(500);

    private readonly CancellationTokenSource _ending = CancellationTokenSource.CreateLinkedTokenSource(stopping);
    private Task<uint?>? _running;

    /// <summary>Checks, or waits for the check that was late before.</summary>
    /// <param name="ended">Ends the wait.</param>
    /// <returns>The check, which has ended; null when <paramref name="ended"/> has.</returns>
    /// <exception cref="TimeoutException">The check is late, and goes on.</exception>
    public async Task<Task<uint?>?> RunAsync(Task ended)
    {
        var running = _running ??= check(_ending.Token);
        await Task.WhenAny(running, ended).WaitAsync(limit, timeProvider, stopping).ConfigureAwait(false);
        if (ended.IsCompleted)
            return null;
        _running = null;
        return running;
    }

    public async ValueTask DisposeAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        if (_running is { } running)
        {
            _ = running.ContinueWith(static late => late.Exception, TaskScheduler.Default);
            await ((Task)running).WaitAsync(EndLimit, timeProvider, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }

        _ending.Dispose();
    }
}
