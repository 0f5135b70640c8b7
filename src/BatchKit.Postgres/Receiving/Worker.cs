namespace BatchKit.Postgres.Receiving;

/// <summary>Claims for itself: handles one batch at a time, and settles it in the exchange that claims the next.</summary>
internal sealed class Worker(ReceiverParts parts, BatchRunner runner)
{
    // A look for what came with a notification and can't be claimed: it is delayed, or another worker was faster. Not at once, because many wakes come to nothing.
    private static readonly TimeSpan LookSoon = TimeSpan.FromMilliseconds(50);

    // The pool resets what comes back to it, in seven statements that the next claim would wait for; so the connection is kept for a next wake that comes soon.
    private static readonly TimeSpan ConnectionIdleTime = TimeSpan.FromSeconds(1);

    private readonly List<HeldClaim> _settled = new(1);
    private readonly RetryShare _retryShare = new();

    public async Task RunAsync()
    {
        // Starting must not wait for the first claim.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        var exchanger = new ClaimExchanger(parts);
        await using (exchanger.ConfigureAwait(false))
        {
            while (await WaitForWorkAsync(exchanger).ConfigureAwait(false))
                await WorkAsync(exchanger).ConfigureAwait(false);
        }
    }

    private async Task<bool> WaitForWorkAsync(ClaimExchanger exchanger)
    {
        var wake = parts.Signal.WaitAsync(parts.Stop.Stopping);
        await ((Task)wake).WaitAsync(ConnectionIdleTime, parts.TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!wake.IsCompleted)
            await exchanger.ReleaseConnectionAsync().ConfigureAwait(false);
        return await wake.ConfigureAwait(false);
    }

    private async ValueTask WorkAsync(ClaimExchanger exchanger)
    {
        var hasDone = false;
        while (true)
        {
            var taken = await exchanger.ExchangeAsync(_settled, new ClaimRequest(Claims: 1, _retryShare.IsRetriesTurn)).ConfigureAwait(false);
            if (taken.Count == 0)
            {
                if (!hasDone)
                    parts.UpkeepAlarm.RingWithin(LookSoon);
                return;
            }

            if (taken[0].Claim.HasMore)
                parts.Signal.Wake();
            await runner.RunAsync(taken[0]).ConfigureAwait(false);
            _retryShare.Took(parts.TimeProvider.GetElapsedTime(taken[0].ClaimedAt), isRetry: taken[0].Claim.Batch[0].Attempt > 1);
            hasDone = IsDone(taken[0].Claim.Batch);
            _settled.Add(taken[0]);
        }
    }

    // What was not done is due again at a time that only the server knows.
    private bool IsDone(QueueBatch batch)
    {
        for (var index = 0; index < batch.Count; index++)
        {
            if (parts.Policy.OutcomeOf(batch[index]) is MessageOutcome.Retry or MessageOutcome.Released)
                return false;
        }

        return true;
    }
}

/// <summary>
/// Shares a worker's time between fresh messages and retries. Not its turns: retries are claimed one by one, so that turn by turn what a crashed worker left would wait for a hundred batches of whatever else there is.
/// </summary>
internal sealed class RetryShare
{
    // What stands for a time too short to measure, so that turns change even then.
    private static readonly TimeSpan Least = TimeSpan.FromTicks(1);

    private TimeSpan _left = Least;

    /// <summary>True while retries have time left: as much as the last fresh batch took, and a turn at least.</summary>
    public bool IsRetriesTurn => _left > TimeSpan.Zero;

    /// <summary>A batch took so long to claim and to handle.</summary>
    public void Took(TimeSpan time, bool isRetry)
    {
        var spent = time > Least ? time : Least;
        _left = isRetry ? _left - spent : spent;
    }
}
