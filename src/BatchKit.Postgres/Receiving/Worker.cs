namespace BatchKit.Postgres.Receiving;

/// <summary>Claims and handles one batch at a time, and settles it in the exchange that claims the next one.</summary>
internal sealed class Worker(ReceiverParts parts, SharedExchanges exchanges, BatchRunner runner)
{
    private readonly RetryShare _retryShare = new();

    public async Task RunAsync()
    {
        // The start must not wait for the first claim.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        using var exchanger = new ClaimExchanger(parts);
        while (await parts.Signal.WaitAsync(parts.Stop.Stopping).ConfigureAwait(false))
            await WorkAsync(exchanger).ConfigureAwait(false);
    }

    private async ValueTask WorkAsync(ClaimExchanger exchanger)
    {
        HeldClaim? settled = null;
        var owesLook = false;
        while (true)
        {
            var taken = await exchanges.ExchangeAsync(exchanger, settled, _retryShare.IsRetriesTurn).ConfigureAwait(false);
            owesLook |= settled is not null && !parts.Policy.IsDone(settled.Claim.Batch);
            if (taken is null)
            {
                // Nothing was looked for while the intake is closed.
                if (parts.Intake.IsOpen)
                    parts.UpkeepAlarm.RingWithin(owesLook || settled is null ? Upkeep.Soon : Upkeep.Later);
                return;
            }

            if (taken.Claim.HasMore)
                parts.Signal.Wake();
            await runner.RunAsync(taken).ConfigureAwait(false);
            _retryShare.Took(parts.TimeProvider.GetElapsedTime(taken.ClaimedAt), isRetry: taken.Claim.Batch[0].Attempt > 1);
            settled = taken;
        }
    }
}

/// <summary>
/// Shares a worker's time, not its turns, between fresh messages and retries. Retries are claimed one by one: with alternating turns, a crashed worker's batch of a hundred would wait for a hundred fresh batches.
/// </summary>
internal sealed class RetryShare
{
    // Replaces a time that is too short to measure, so that turns still change.
    private static readonly TimeSpan Least = TimeSpan.FromTicks(1);

    private TimeSpan _left = Least;

    /// <summary>True while retries have time left: as long as fresh batches took, less what retries took.</summary>
    public bool IsRetriesTurn => _left > TimeSpan.Zero;

    /// <summary>Reports how long a batch took to claim and handle.</summary>
    public void Took(TimeSpan time, bool isRetry)
    {
        var spent = time > Least ? time : Least;
        if (!isRetry)
            // A retry may have taken longer than it had, and fresh batches are owed that. But time without retries is not saved up.
            _left = (_left < TimeSpan.Zero ? _left : TimeSpan.Zero) + spent;
        else if (IsRetriesTurn)
            // In a turn of fresh batches it was claimed because there were none.
            _left -= spent;
    }
}

/// <summary>
/// Wakes one idle worker, the one that went idle last: its data is in the processors' caches. Remembers one wake without a waiting worker, so that no wake is lost while a
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
