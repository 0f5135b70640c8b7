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
}
