using System.Diagnostics;
using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Dispatch;

/// <summary>The time limit of one partition's sends. It cancels the send's token first; when the transport ignores that, it gives up the call.</summary>
/// <remarks>
/// It is armed before a send begins, so that a transport that blocks its caller is cancelled too. While sends follow each other the timer stays armed and only their
/// count advances, because arming it costs more than an in-process send. Its state is guarded by the partition's lock, which every send's begin takes anyway.
/// </remarks>
internal sealed class SendDeadline : IAsyncDisposable
{
    /// <summary>The time that a transport gets to notice that its token was cancelled.</summary>
    public static readonly TimeSpan Grace = TimeSpan.FromMilliseconds(500);

    // The timer fires this often during a send, because a send that begins while it is armed is timed from its next firing.
    private const int LooksPerLimit = 8;

    private readonly Lock _gate;
    private readonly BufferSettings _settings;
    private readonly string _route;
    private readonly PartitionHealth _health;
    private readonly TimeSpan _look;
    private readonly ITimer _timer;

    // Guarded by _gate.
    private CancellationTokenSource _cancellation = new();
    private TaskCompletionSource? _givenUp;
    private long _send;
    private bool _isSending;
    private bool _isArmed;
    private long _timedSend;
    private long _since;
    private bool _expired;
    private long _cancelledAt;
    private bool _aborted;

    public SendDeadline(BufferSettings settings, Lock gate, string route, PartitionHealth health)
    {
        _gate = gate;
        _settings = settings;
        (_route, _health) = (route, health);
        _look = settings.SendTimeout / LooksPerLimit;
        _timer = settings.Clock.CreateTimer(static state => ((SendDeadline)state!).OnTimer(), this);
    }

    /// <summary>The token of the send that begins.</summary>
    public CancellationToken Token => _cancellation.Token;

    public bool IsAborted => Volatile.Read(ref _aborted);

    /// <summary>A send begins; call it under the partition's lock.</summary>
    public void Begin()
    {
        _send++;
        _isSending = true;
        if (_expired)
            RenewToken();
        if (_isArmed)
            return;
        Time(_send);
        Arm(_look);
    }

    /// <summary>The send has ended; call it under the partition's lock.</summary>
    public void End()
    {
        _isSending = false;
        if (_expired)
            RenewToken();
    }

    /// <summary>Waits for a send to end. One that does not end when it is cancelled is left to itself, with its batches.</summary>
    /// <returns>Why it failed; null when it succeeded.</returns>
    public async ValueTask<Exception?> WaitForEndAsync(ValueTask pending, OutgoingSend outgoing)
    {
        try
        {
            if (pending.IsCompleted)
            {
                await pending.ConfigureAwait(false);
                return null;
            }

            var send = pending.AsTask();
            if (await WaitAsync(send).ConfigureAwait(false))
            {
                await send.ConfigureAwait(false);
                return null;
            }

            outgoing.Abandon(send);
            return TookTooLong("and did not end when its token was cancelled", cause: null);
        }
        catch (OperationCanceledException canceled) when (Volatile.Read(ref _expired))
        {
            return TookTooLong("and was cancelled", canceled);
        }
        catch (Exception failure)
        {
            return failure;
        }
        finally
        {
            lock (_gate)
                End();
        }
    }

    /// <summary>Waits between two sends; the drain limit ends the wait.</summary>
    public async ValueTask PauseAsync(TimeSpan delay)
    {
        if (IsAborted)
            return;
        try
        {
            await Task.Delay(delay, _settings.Clock.TimeProvider, Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            Debug.Assert(IsAborted, "Between sends only the drain limit cancels.");
        }
    }

    /// <summary>The drain limit has passed: cancels the send under way, and every later one from its start. Completes when the transport's handlers have run, on the pool, because they may block.</summary>
    public Task AbortAsync()
    {
        CancellationTokenSource cancellation;
        lock (_gate)
        {
            if (_aborted)
                return Task.CompletedTask;
            Volatile.Write(ref _aborted, true);
            _cancelledAt = _settings.Clock.Now;
            cancellation = _cancellation;
            if (_givenUp is not null)
                Arm(Grace);
        }

        return CancelAsync(cancellation);
    }

    public async ValueTask DisposeAsync()
    {
        await _settings.Clock.EndAsync(_timer).ConfigureAwait(false);
        _cancellation.Dispose();
    }

    /// <summary>Waits for a send to end, in whatever way, within the limit.</summary>
    /// <returns>False when it was given up while it was still running.</returns>
    private async ValueTask<bool> WaitAsync(Task send)
    {
        TaskCompletionSource givenUp;
        lock (_gate)
        {
            _givenUp = givenUp = new TaskCompletionSource();
            // A transport that blocked its caller may have been cancelled before there was a call to give up.
            if (_aborted || _expired)
                Arm(Grace);
            else if (_timedSend != _send)
                Time(_send);
        }

        var first = await Task.WhenAny(send, givenUp.Task).ConfigureAwait(false);
        lock (_gate)
        {
            _givenUp = null;
            _isArmed = false;
            _timer.Change(Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        }

        return ReferenceEquals(first, send) || send.IsCompleted;
    }

    private TimeoutException TookTooLong(string what, Exception? cause) =>
        new($"A send took longer than {nameof(OutputBufferOptions.SendTimeout)} ({_settings.SendTimeout}) {what}.", cause);

    // A timer may fire early, late or twice (.NET's fire up to 3 ms early), so it only tells when to look: what is not due yet is timed again for the rest.
    private void OnTimer()
    {
        CancellationTokenSource? expired = null;
        TaskCompletionSource? givenUp = null;
        TimeoutException? blocked = null;
        lock (_gate)
        {
            _isArmed = false;
            if (!_isSending)
                return;
            if (_expired || _aborted)
                givenUp = GiveUpWhenDue(out blocked);
            else
                expired = ExpireWhenDue();
        }

        // The sender continues from here, and calls loggers and transports: never under the lock.
        givenUp?.TrySetResult();
        if (expired is not null)
            Cancel(expired);
        if (blocked is not null)
            _settings.Logger.SendBlocks(_settings.LogThrottle, _route, blocked);
    }

    private TaskCompletionSource? GiveUpWhenDue(out TimeoutException? blocked)
    {
        blocked = null;
        var left = Grace - _settings.Clock.ElapsedSince(_cancelledAt);
        if (left > TimeSpan.Zero)
        {
            Arm(left);
            return null;
        }

        // A call that has not returned can't be given up: it has the sender's thread.
        if (_givenUp is null && !_aborted)
            _health.Block(_since, blocked = TookTooLong("and has not returned since its token was cancelled: the transport blocks its thread", cause: null));
        return _givenUp;
    }

    private CancellationTokenSource? ExpireWhenDue()
    {
        if (_timedSend != _send)
        {
            // The send began after the timer last fired. Its limit counts from now, so it gets one interval of the timer more at most.
            Time(_send);
            Arm(_look);
            return null;
        }

        var left = _settings.SendTimeout - _settings.Clock.ElapsedSince(_since);
        if (left > TimeSpan.Zero)
        {
            Arm(left < _look ? left : _look);
            return null;
        }

        Volatile.Write(ref _expired, true);
        _cancelledAt = _settings.Clock.Now;
        Arm(Grace);
        return _cancellation;
    }

    // The token was cancelled for the previous send, so the next one needs another. What an abort has cancelled stays cancelled.
    private void RenewToken()
    {
        if (_aborted)
            return;
        Volatile.Write(ref _expired, false);
        _health.Unblock();
        _cancellation = new CancellationTokenSource();
    }

    private void Time(long send)
    {
        _timedSend = send;
        _since = _settings.Clock.Now;
    }

    private void Arm(TimeSpan time)
    {
        _isArmed = true;
        _timer.Change(WholeMilliseconds.Of(time), Timeout.InfiniteTimeSpan);
    }

    // Runs the transport's own callbacks, which may throw. One that blocks holds up this firing only.
    private void Cancel(CancellationTokenSource cancellation)
    {
        try
        {
            cancellation.Cancel();
        }
        catch (Exception failure)
        {
            Report(failure);
        }
    }

    private async Task CancelAsync(CancellationTokenSource cancellation)
    {
        try
        {
            await cancellation.CancelAsync().ConfigureAwait(false);
        }
        catch (Exception failure)
        {
            Report(failure);
        }
    }

    private void Report(Exception failure)
    {
        _settings.Logger.Faults.Add(failure);
        _settings.Logger.CancellationFailed(_settings.LogThrottle, failure);
    }
}
