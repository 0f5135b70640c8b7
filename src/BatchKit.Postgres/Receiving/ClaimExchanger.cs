using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Exchanges claims with the server, and retries until the server has settled the claims, or they have ended. It makes one exchange at a time.</summary>
internal sealed class ClaimExchanger(ReceiverParts parts) : IDisposable
{
    private readonly RetrySchedule _schedule = new(parts.Options.ReconnectDelay, parts.Options.MaxReconnectDelay);
    private readonly List<Claim> _sent = [];
    private int _failures;

    // True once an exchange was sent whose answer is unknown: it may have taken claims that no worker knows of.
    private bool _isSent;

    /// <summary>Settles claims, which this process then no longer holds, and takes new ones unless the receiver stops.</summary>
    /// <param name="settled">The claims to settle. Those that are settled, or lost, are removed.</param>
    /// <param name="request">What to take.</param>
    /// <param name="isShared">True: what may be the fault of one claim is not retried for all.</param>
    /// <param name="isRepeat">True: a shared exchange may have settled the claims already.</param>
    /// <returns>What was taken; null when each claim has to be exchanged alone.</returns>
    public async ValueTask<IReadOnlyList<HeldClaim>?> ExchangeAsync(List<HeldClaim> settled, ClaimRequest request, bool isShared, bool isRepeat = false)
    {
        parts.Intake.Enter();
        try
        {
            _isSent = isRepeat;
            return await RepeatAsync(settled, request, isShared).ConfigureAwait(false);
        }
        finally
        {
            parts.Intake.Leave();
        }
    }

    public void Dispose() => parts.Health.Forget(this);

    private async ValueTask<IReadOnlyList<HeldClaim>?> RepeatAsync(List<HeldClaim> settled, ClaimRequest request, bool isShared)
    {
        var attempts = 0;
        var isAdopting = false;
        while (true)
        {
            DropLost(settled);
            if (parts.Stop.Stopping.IsCancellationRequested || !parts.Intake.IsOpen)
                request = request with { Claims = 0 };
            if (settled.Count == 0 && request.Claims == 0 && !_isSent)
            {
                // What failed is given up. When the receiver stops, no other task may be left that fails.
                if (!parts.Stop.Stopping.IsCancellationRequested)
                    parts.Health.Succeeded(this);
                return [];
            }

            try
            {
                var claimedAt = parts.TimeProvider.GetTimestamp();
                var exchange = await (isAdopting ? TryAsync([], request with { Claims = 0 }) : TryAsync(settled, request)).ConfigureAwait(false);
                _failures = 0;
                parts.Health.Succeeded(this);
                if (isAdopting && exchange.Taken.Count == 0)
                    return null;
                Count(settled, exchange.Refused);
                return Hold(exchange.Taken, claimedAt);
            }
            catch (PostgresException exception) when (isShared && !isAdopting && IsRefusal(exception))
            {
                // The server has answered.
                parts.Health.Succeeded(this);
                return null;
            }
            catch (Exception exception)
            {
                // A server that does not answer in time is asked once more. After that it may be one claim that waits for a lock, so each goes alone, unless the server has committed them and only its answers were lost.
                isAdopting |= isShared && exception is NpgsqlException { InnerException: TimeoutException } && attempts++ > 0;
                await FailedAsync(settled, exception).ConfigureAwait(false);
            }
        }
    }

    private static bool IsRefusal(PostgresException exception) => !ServerFault.LosesQueue(exception) && !ServerFault.IsOutage(exception);

    private Task<ClaimExchange> TryAsync(List<HeldClaim> settled, ClaimRequest request)
    {
        _sent.Clear();
        foreach (var held in settled)
        {
            held.IsSettling = true;
            _sent.Add(held.Claim);
        }

        // If the answer is not awaited, no worker knows of the new claim until it ends. So not even a stop interrupts an exchange.
        return parts.WatchAsync(this, parts.Connections.Exchanges.UseAsync(
            (connection, closing) =>
            {
                // A kept connection that turns out to be broken is replaced, and its use runs again.
                var isRepeat = _isSent;
                _isSent = true;
                return parts.Store.ExchangeAsync(connection, _sent, request with { IsRepeat = isRepeat }, closing);
            },
            parts.Stop.Closing));
    }

    private async ValueTask FailedAsync(List<HeldClaim> settled, Exception exception)
    {
        if (parts.Stop.Abandoning.IsCancellationRequested)
        {
            // Claims that could not be settled end at their time limit.
            settled.ForEach(Lose);
            settled.Clear();
            _isSent = false;
            return;
        }

        parts.Failed(this, exception);
        var pause = _schedule.DelayAfter(++_failures, Random.Shared);
        // Without claims to settle, a stop need not wait; it makes one attempt to find what a lost exchange has taken.
        if (settled.Count == 0 && parts.Stop.Stopping.IsCancellationRequested)
            _isSent = false;
        var until = settled.Count == 0 ? parts.Stop.Stopping : parts.Stop.Abandoning;
        await Task.Delay(pause, parts.TimeProvider, until).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private void DropLost(List<HeldClaim> settled)
    {
        for (var index = settled.Count - 1; index >= 0; index--)
        {
            if (!settled[index].IsLost && parts.Held.Left(settled[index]) > TimeSpan.Zero)
                continue;
            Lose(settled[index]);
            settled.RemoveAt(index);
        }
    }

    private void Lose(HeldClaim held)
    {
        parts.Counters.Lost(held.Claim.Batch.Count);
        parts.Held.Remove(held);
    }

    private void Count(List<HeldClaim> settled, IReadOnlyList<Claim> refused)
    {
        foreach (var held in settled)
        {
            if (refused.Contains(held.Claim))
            {
                Log.SettlementRefused(parts.Logger, parts.Options.Queue, held.Claim.Batch.Count);
                Lose(held);
                continue;
            }

            if (parts.Counters.Settled(held.Claim.Batch, parts.Policy) is > 0 and var died)
                parts.Dead?.Died(died, held.Claim.Batch.Last(message => parts.Policy.OutcomeOf(message) == MessageOutcome.Dead).Reason);
            parts.Held.Remove(held);
        }

        settled.Clear();
    }

    private void ReportUnreadable(QueueBatch batch)
    {
        var newer = batch.Count(static message => message is { IsWithheld: true, Outcome: MessageOutcome.Released });
        var malformed = batch.Count(static message => message is { IsWithheld: true, Outcome: MessageOutcome.Dead });
        // Messages of a newer version are claimed again at each poll while only this version runs.
        parts.Counters.Unreadable(newer + malformed);
        if (newer > 0 && parts.Counters.IsFirstNewer())
            Log.NewerMessages(parts.Logger, parts.Options.Queue, newer);
        if (malformed > 0)
            Log.HeadersMalformed(parts.Logger, parts.Options.Queue, malformed);
    }

    private HeldClaim[] Hold(IReadOnlyList<Claim> taken, long claimedAt)
    {
        if (taken.Count == 0)
            return [];
        var claims = new HeldClaim[taken.Count];
        for (var index = 0; index < claims.Length; index++)
        {
            parts.Counters.Claimed(taken[index].Batch.Count);
            if (taken[index].Readable != taken[index].Batch)
                ReportUnreadable(taken[index].Batch);
            claims[index] = parts.Held.Add(taken[index], claimedAt);
        }

        return claims;
    }
}
