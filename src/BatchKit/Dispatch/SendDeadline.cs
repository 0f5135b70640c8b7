namespace BatchKit.Dispatch;

/// <summary>The time limit of one partition's sends: first cancels the send's token, then, if the transport does not heed it, gives the call up.</summary>
internal sealed class SendDeadline : IAsyncDisposable
{
    // What a transport gets to notice that its token was cancelled.
    private static readonly TimeSpan Grace = TimeSpan.FromMilliseconds(500);

    private readonly Lock _gate = new();
    private readonly TimeProvider _timeProvider;
    private readonly TimeSpan _limit;
    private readonly ITimer _timer;

    // Guarded by _gate.
    private CancellationTokenSource _cancellation = new();
    private TaskCompletionSource? _givenUp;
    private long _armedAt;
    private bool _isCancelling;
    private bool _aborted;

    public SendDeadline(TimeProvider timeProvider, TimeSpan limit)
    {
        _timeProvider = timeProvider;
        _limit = limit;
        _timer = timeProvider.CreateTimer(static state => ((SendDeadline)state!).OnDue(), this, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
    }

    /// <summary>For the next send.</summary>
    public CancellationToken Token => _cancellation.Token;

    public bool IsAborted => Volatile.Read(ref _aborted);

    /// <summary>Waits for a send to end, in whatever way, within the limit.</summary>
    /// <returns>False when it was given up while it was still running.</returns>
    public async ValueTask<bool> WaitAsync(Task send)
    {
        TaskCompletionSource givenUp;
        lock (_gate)
        {
            _givenUp = givenUp = new TaskCompletionSource();
            _armedAt = _timeProvider.GetTimestamp();
            _timer.Change(_aborted ? Grace : _limit, Timeout.InfiniteTimeSpan);
        }

        var first = await Task.WhenAny(send, givenUp.Task).ConfigureAwait(false);
        lock (_gate)
        {
            _givenUp = null;
            _timer.Change(Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
            // Reset it would hit the next send, when it was found due and its cancelling is still to come; that needs it whole, so it is left to the collector.
            if (!_aborted && (_isCancelling || !_cancellation.TryReset()))
                _cancellation = new CancellationTokenSource();
            _isCancelling = false;
        }

        return ReferenceEquals(first, send) || send.IsCompleted;
    }

    /// <summary>The drain limit has passed: cancels the send under way, and every later one from its start.</summary>
    public void Abort()
    {
        CancellationTokenSource cancellation;
        lock (_gate)
        {
            if (_aborted)
                return;
            Volatile.Write(ref _aborted, true);
            cancellation = _cancellation;
            if (_givenUp is not null)
                _timer.Change(Grace, Timeout.InfiniteTimeSpan);
        }

        cancellation.Cancel();
    }

    public async ValueTask DisposeAsync()
    {
        await _timer.DisposeAsync().ConfigureAwait(false);
        _cancellation.Dispose();
    }

    private void OnDue()
    {
        CancellationTokenSource? cancellation = null;
        TaskCompletionSource? givenUp;
        lock (_gate)
        {
            givenUp = _givenUp;
            if (givenUp is null)
                return;
            if (!_cancellation.IsCancellationRequested)
            {
                // A callback that comes late must not hit the send after the one it was meant for.
                if (_timeProvider.GetElapsedTime(_armedAt) < _limit)
                    return;
                cancellation = _cancellation;
                _isCancelling = true;
                _timer.Change(Grace, Timeout.InfiniteTimeSpan);
            }
        }

        if (cancellation is not null)
            cancellation.Cancel();
        else
            givenUp.TrySetResult();
    }
}
