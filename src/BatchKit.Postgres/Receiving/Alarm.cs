namespace BatchKit.Postgres.Receiving;

/// <summary>A wait that others may shorten. One waits, any thread may ask.</summary>
internal sealed class Alarm(TimeProvider timeProvider)
{
    // Guards what is below.
    private readonly Lock _lock = new();
    private TaskCompletionSource _asked = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _due = long.MaxValue;

    /// <summary>The wait under way, or the next one, ends by then at the latest.</summary>
    public void RingWithin(TimeSpan time)
    {
        var due = timeProvider.GetTimestamp() + (long)(time.TotalSeconds * timeProvider.TimestampFrequency);
        TaskCompletionSource asked;
        lock (_lock)
        {
            if (due >= _due)
                return;
            _due = due;
            asked = _asked;
        }

        asked.TrySetResult();
    }

    public async Task WaitAsync(TimeSpan longest, CancellationToken cancellationToken)
    {
        RingWithin(longest);
        while (!cancellationToken.IsCancellationRequested && Left(out var asked) is { } left)
        {
            using var ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
            await Task.WhenAny(asked, Task.Delay(left, timeProvider, ending.Token)).ConfigureAwait(false);
            await ending.CancelAsync().ConfigureAwait(false);
        }
    }

    // Null when the time has come, which forgets it.
    private TimeSpan? Left(out Task asked)
    {
        lock (_lock)
        {
            if (_asked.Task.IsCompleted)
                _asked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            asked = _asked.Task;
            var now = timeProvider.GetTimestamp();
            if (now < _due)
                return timeProvider.GetElapsedTime(now, _due);
            _due = long.MaxValue;
            return null;
        }
    }
}
