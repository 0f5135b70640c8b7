namespace BatchKit.Postgres.Receiving;

/// <summary>Whether a receiver claims messages: not while it is paused, nor while too many handlers run that were given up. It outlives the receiver's sessions. Thread-safe.</summary>
/// <remarks>A handler that ignores its token runs on, so its worker may claim and hang again. Workers claim only below a limit of such handlers, so those and the workers' own are all that run.</remarks>
internal sealed class Intake(PostgresQueueReceiverOptions options)
{
    // One message that always hangs does not reach it before its attempts are used up.
    private const int LeastLimit = 10;

    private readonly int _limit = Math.Max(options.Concurrency, LeastLimit);

    // Guards the two fields below it.
    private readonly Lock _lock = new();
    private int _inHand;
    private TaskCompletionSource? _emptied;

    private volatile bool _isPaused;
    private int _abandoned;

    public bool IsOpen => !_isPaused && AbandonedHandlers < _limit;

    public bool IsPaused => _isPaused;

    /// <summary>How many handlers run that were given up.</summary>
    public int AbandonedHandlers => Volatile.Read(ref _abandoned);

    /// <summary>Why nothing is claimed, in a sentence; null while it is open, or paused.</summary>
    public string? Fault => AbandonedHandlers is var abandoned && abandoned < _limit
        ? null
        : $"{abandoned} handlers still run that {nameof(options.HandlerTimeLimit)} ({options.HandlerTimeLimit}) has cancelled, so nothing is claimed until one ends. Handlers must heed their token; a restart of the process ends them.";

    /// <summary>A handler that ignores its token was given up.</summary>
    public void Abandon() => Interlocked.Increment(ref _abandoned);

    /// <summary>A handler that was given up has ended.</summary>
    public void Ended() => Interlocked.Decrement(ref _abandoned);

    /// <summary>Something is in hand: an exchange that may claim, or a claim. An exchange enters before it looks whether the intake is open, so that a pause waits for it, or it sees the pause.</summary>
    public void Enter()
    {
        lock (_lock)
            _inHand++;
    }

    /// <summary>An exchange has ended, or a claim is settled or lost.</summary>
    public void Leave()
    {
        lock (_lock)
        {
            if (--_inHand == 0)
                _emptied?.TrySetResult();
        }
    }

    /// <returns>True when it was not paused; and a task that completes when nothing is in hand, or it is resumed.</returns>
    public (bool IsFirst, Task Emptied) Pause()
    {
        lock (_lock)
        {
            var isFirst = !_isPaused;
            _isPaused = true;
            if (_emptied is null || _emptied.Task.IsCompleted)
                _emptied = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            if (_inHand == 0)
                _emptied.TrySetResult();
            return (isFirst, _emptied.Task);
        }
    }

    /// <returns>False when it was not paused.</returns>
    public bool Resume()
    {
        lock (_lock)
        {
            var wasPaused = _isPaused;
            _isPaused = false;
            _emptied?.TrySetResult();
            return wasPaused;
        }
    }
}
