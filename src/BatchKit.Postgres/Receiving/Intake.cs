namespace BatchKit.Postgres.Receiving;

/// <summary>Whether a receiver claims messages: not while too many handlers run that were given up. It outlives the receiver's sessions. Thread-safe.</summary>
/// <remarks>A handler that ignores its token runs on, so its worker may claim and hang again. Workers claim only below a limit of such handlers, so those and the workers' own are all that run.</remarks>
internal sealed class Intake(PostgresQueueReceiverOptions options)
{
    // One message that always hangs does not reach it before its attempts are used up.
    private const int LeastLimit = 10;

    private readonly int _limit = Math.Max(options.Concurrency, LeastLimit);
    private int _abandoned;

    public bool IsOpen => AbandonedHandlers < _limit;

    /// <summary>How many handlers run that were given up.</summary>
    public int AbandonedHandlers => Volatile.Read(ref _abandoned);

    /// <summary>Why nothing is claimed, in a sentence; null while it is open.</summary>
    public string? Fault => AbandonedHandlers is var abandoned && abandoned < _limit
        ? null
        : $"{abandoned} handlers still run that {nameof(options.HandlerTimeLimit)} ({options.HandlerTimeLimit}) has cancelled, so nothing is claimed until one ends. Handlers must heed their token; a restart of the process ends them.";

    /// <summary>A handler that ignores its token was given up.</summary>
    public void Abandon() => Interlocked.Increment(ref _abandoned);

    /// <summary>A handler that was given up has ended.</summary>
    public void Ended() => Interlocked.Decrement(ref _abandoned);
}
