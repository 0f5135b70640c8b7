namespace BatchKit.Postgres.Receiving;

/// <summary>
/// Lets one idle worker look for work, the one that went idle last: its connection is open still, and what it needs is in the processors' caches. Remembers one wake that nobody waited for, so that none is
/// lost while a worker is on its way back to idle. Any thread.
/// </summary>
internal sealed class WorkSignal
{
    // Guards both.
    private readonly Lock _lock = new();
    private readonly List<TaskCompletionSource<bool>> _idle = [];
    private bool _isWakePending;

    public void Wake()
    {
        TaskCompletionSource<bool> last;
        lock (_lock)
        {
            if (_idle.Count == 0)
            {
                _isWakePending = true;
                return;
            }

            last = _idle[^1];
            _idle.RemoveAt(_idle.Count - 1);
        }

        last.SetResult(true);
    }

    /// <returns>False when there will be no more work.</returns>
    public async Task<bool> WaitAsync(CancellationToken stopping)
    {
        var wake = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_lock)
        {
            if (_isWakePending)
            {
                _isWakePending = false;
                return !stopping.IsCancellationRequested;
            }

            _idle.Add(wake);
        }

        using var leaving = stopping.UnsafeRegister(state => Leave((TaskCompletionSource<bool>)state!), wake);
        return await wake.Task.ConfigureAwait(false) && !stopping.IsCancellationRequested;
    }

    private void Leave(TaskCompletionSource<bool> wake)
    {
        lock (_lock)
        {
            // It is being woken, and sees for itself that there is a stop.
            if (!_idle.Remove(wake))
                return;
        }

        wake.SetResult(false);
    }
}
