using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>What all receivers' starts and stops have in common: the work starts once, its first attempt can be awaited, and it ends in time, whatever the next hop does.</summary>
/// <remarks>Thread-safe.</remarks>
internal sealed class ReceiverLifetime : IDisposable
{
    // What a send needs to end once it is cancelled. One that ignores its token must not keep the process alive.
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(2);

    private readonly TimeProvider _timeProvider;
    private readonly CancellationTokenSource _stopping = new();
    private readonly CancellationTokenSource _abandoning = new();
    private readonly TaskCompletionSource _triedOnce = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly HeldFrame _held;
    private Task _running = Task.CompletedTask;
    private bool _isStarted;
    private bool _isDisposed;
    private volatile bool _isGivenUp;
    private volatile string? _fault = "The receiver has not started.";

    public ReceiverLifetime(TimeProvider timeProvider, GuardedLogger logger)
    {
        (_timeProvider, Log, _held) = (timeProvider, new ReceiverLog(logger, timeProvider), new HeldFrame(timeProvider));
        // Read now: work that was given up uses them when the sources are disposed of.
        (Stopping, Abandoning) = (_stopping.Token, _abandoning.Token);
    }

    public ReceiverLog Log { get; }

    /// <summary>Cancelled when no further frame is to be received.</summary>
    public CancellationToken Stopping { get; }

    /// <summary>Cancelled when the frame in hand is to be given up. The next hop gets it.</summary>
    public CancellationToken Abandoning { get; }

    /// <summary>Why nothing is received now, in a sentence without secrets; null while it is.</summary>
    public string? Fault
    {
        get => _fault ?? _held.Fault;
        set => _fault = value;
    }

    /// <summary>The first attempt is over.</summary>
    public bool HasTried => _triedOnce.Task.IsCompleted;

    public bool IsDisposed => _isDisposed;

    /// <summary>Starts the work unless it has started, and completes with its first attempt.</summary>
    public Task StartAsync(Func<Task> work, CancellationToken cancellationToken)
    {
        if (!Interlocked.Exchange(ref _isStarted, true))
            _running = CallerContext.RunWithout(work);
        return _triedOnce.Task.WaitAsync(cancellationToken);
    }

    /// <summary>Completes <see cref="StartAsync"/>.</summary>
    /// <param name="fault">How the attempt failed; null when it is receiving.</param>
    public void Tried(string? fault)
    {
        _fault = fault;
        _triedOnce.TrySetResult();
    }

    /// <summary>Waits until the next attempt, or the stop.</summary>
    public async Task PauseAsync(TimeSpan delay) => await Task.Delay(delay, _timeProvider, Stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);

    /// <inheritdoc cref="HeldFrame.WatchAsync(ValueTask)"/>
    public ValueTask WatchAsync(ValueTask receiving) => _held.WatchAsync(receiving);

    /// <summary>Ends the work. The frame in hand is finished within a time, and then given up.</summary>
    /// <param name="source">What the log calls what it receives from.</param>
    /// <param name="limit">How long the frame in hand may take; zero gives it up at once.</param>
    /// <param name="cancellationToken">Gives it up at once.</param>
    /// <returns>False when the work goes on, because the next hop ignores that its send was cancelled.</returns>
    public async Task<bool> StopAsync(string source, TimeSpan limit, CancellationToken cancellationToken)
    {
        if (_isGivenUp)
            return false;
        // Not awaited, here and below: a callback of the next hop may hang.
        _ = Log.Logger.Faults.CancelAsync(_stopping);
        if (limit > TimeSpan.Zero)
        {
            if (await EndsAsync(_running, limit, _timeProvider, cancellationToken).ConfigureAwait(false))
                return true;
            Log.FrameAbandoned(source, limit);
        }

        _isGivenUp = !await AbandonAsync(_running, _abandoning, source, _timeProvider, Log).ConfigureAwait(false);
        return !_isGivenUp;
    }

    public void Dispose()
    {
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        _stopping.Dispose();
        _abandoning.Dispose();
    }

    /// <summary>Cancels what a receiver has in hand, and waits a moment for its end.</summary>
    /// <param name="work">Ends with what is in hand.</param>
    /// <param name="abandoning">Cancels it. What its callbacks throw is counted.</param>
    /// <param name="source">What the log calls what it receives from.</param>
    /// <param name="timeProvider">Measures the moment.</param>
    /// <param name="log">Is told when it does not end.</param>
    /// <returns>Whether it has ended.</returns>
    public static async Task<bool> AbandonAsync(Task work, CancellationTokenSource abandoning, string source, TimeProvider timeProvider, ReceiverLog log)
    {
        _ = log.Logger.Faults.CancelAsync(abandoning);
        if (await EndsAsync(work, EndLimit, timeProvider, CancellationToken.None).ConfigureAwait(false))
            return true;
        log.HopRemains(source, EndLimit);
        return false;
    }

    private static async Task<bool> EndsAsync(Task work, TimeSpan limit, TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        await work.WaitAsync(limit, timeProvider, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!work.IsCompleted)
            return false;
        await work.ConfigureAwait(false);
        return true;
    }
}

/// <summary>Tells when the next hop has a frame for long, because nothing else is received meanwhile. One frame at a time.</summary>
internal sealed class HeldFrame(TimeProvider timeProvider)
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(10);

    private volatile bool _isHeld;

    /// <summary>What is wrong, in a sentence; null while no frame is held.</summary>
    public string? Fault => _isHeld ? $"The next transport or handler has had a frame for longer than {Limit}." : null;

    /// <summary>Waits until the next hop has a frame. While that takes long, it is the fault.</summary>
    public ValueTask WatchAsync(ValueTask receiving) => receiving.IsCompletedSuccessfully ? receiving : WatchAsync(receiving.AsTask());

    private async ValueTask WatchAsync(Task receiving)
    {
        await receiving.WaitAsync(Limit, timeProvider, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!receiving.IsCompleted)
        {
            _isHeld = true;
            await receiving.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            _isHeld = false;
        }

        await receiving.ConfigureAwait(false);
    }
}
