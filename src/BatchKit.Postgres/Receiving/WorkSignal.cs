namespace BatchKit.Postgres.Receiving;

/// <summary>
/// Wakes one idle worker, the one that went idle last: its connection is still open, and its data is in the processors' caches. Remembers one wake without a waiting worker, so that no wake is lost while a
/// worker is becoming idle. Thread-safe.
/// </summary>
internal sealed class WorkSignal
{
    // Guards both fields below.
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

    /// <returns>False when the receiver stops.</returns>
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
            // The worker is being woken, and sees the stop itself.
            if (!_idle.Remove(wake))
                return;
        }

        wake.SetResult(false);
    }
}
