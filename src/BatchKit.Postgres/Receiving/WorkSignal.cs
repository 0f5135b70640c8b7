using System.Threading.Channels;

namespace BatchKit.Postgres.Receiving;

/// <summary>Lets one idle worker look for work; remembers one wake that nobody waited for, so that none is lost while a worker is on its way back to idle. Any thread.</summary>
internal sealed class WorkSignal
{
    private readonly Channel<bool> _wakes = Channel.CreateBounded<bool>(new BoundedChannelOptions(capacity: 1) { FullMode = BoundedChannelFullMode.DropWrite });

    public void Wake() => _wakes.Writer.TryWrite(true);

    /// <returns>False when there will be no more work.</returns>
    public async ValueTask<bool> WaitAsync(CancellationToken stopping)
    {
        await ((Task)_wakes.Reader.ReadAsync(stopping).AsTask()).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return !stopping.IsCancellationRequested;
    }

    /// <returns>False when no wake came within the limit, or there will be no more work.</returns>
    public async ValueTask<bool> WaitAsync(TimeSpan limit, TimeProvider timeProvider, CancellationToken stopping)
    {
        using var ending = new CancellationTokenSource(limit, timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(stopping, ending.Token);
        Task wake = _wakes.Reader.ReadAsync(either.Token).AsTask();
        await wake.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return wake.IsCompletedSuccessfully && !stopping.IsCancellationRequested;
    }
}
