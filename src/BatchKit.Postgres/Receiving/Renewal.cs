using BatchKit.Transports;

namespace BatchKit.Postgres.Receiving;

/// <summary>Renews all claims after each third of their time limit. Cancels the handlers of lost claims, which the server has ended or which could not be renewed within their time limit.</summary>
internal sealed class Renewal(ReceiverParts parts)
{
    private const int RenewalsPerLimit = 3;

    private readonly RetrySchedule _schedule = new(parts.Options.ReconnectDelay, parts.Options.MaxReconnectDelay);

    /// <summary>Runs until the last claim is settled, which is after the stop began.</summary>
    public async Task RunAsync(CancellationToken settled)
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        var pause = parts.Options.ClaimTimeLimit / RenewalsPerLimit;
        var failures = 0;
        while (!settled.IsCancellationRequested)
        {
            await Task.Delay(pause, parts.TimeProvider, settled).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            var held = GetRenewable();
            try
            {
                if (held.Count > 0 && !settled.IsCancellationRequested)
                    await RenewAsync(held, settled).ConfigureAwait(false);
                (failures, pause) = (0, parts.Options.ClaimTimeLimit / RenewalsPerLimit);
                // When the receiver stops, no other task may be left that fails, and with nothing in hand nothing was asked.
                if (held.Count > 0 || !parts.Stop.Stopping.IsCancellationRequested)
                    parts.Health.Succeeded(this);
            }
            catch (Exception) when (settled.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                parts.Failed(this, exception);
                pause = Least(_schedule.DelayAfter(++failures, Random.Shared), LeastLeft(held));
            }
        }

        parts.Health.Forget(this);
    }

    private static TimeSpan Least(TimeSpan left, TimeSpan right) => left < right ? left : right;

    // Returns the claims to renew, and gives up those whose time limit has passed.
    private List<HeldClaim> GetRenewable()
    {
        var kept = new List<HeldClaim>();
        foreach (var held in parts.Held.Snapshot())
        {
            if (held.IsLost)
                continue;
            if (parts.Held.Left(held) > TimeSpan.Zero)
                kept.Add(held);
            else
                Lose(held, "it could not be renewed within its time limit");
        }

        return kept;
    }

    private async Task RenewAsync(List<HeldClaim> held, CancellationToken settled)
    {
        // Waits only until the first claim ends, because its handler must be cancelled then.
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(settled);
        using var limit = new CancellationTokenSource(LeastLeft(held), parts.TimeProvider);
        // Not on the timer's thread: Npgsql may throw there while its connection is being closed, which would end the process.
        using var cutShort = limit.Token.Register(static ending => _ = ((CancellationTokenSource)ending!).CancelAsync(), ending);
        var renewedAt = parts.TimeProvider.GetTimestamp();
        var claims = held.ConvertAll(static held => held.Claim);
        var ended = (await parts.Connections.Care.UseAsync((connection, token) => parts.Store.RenewAsync(connection, claims, token), ending.Token).ConfigureAwait(false)).ToHashSet();
        for (var index = 0; index < held.Count; index++)
        {
            // A claim that its handler has settled may be gone because of that. Its settlement finds out.
            if (!ended.Contains(claims[index]) || held[index].Claim.Transaction is not null)
                held[index].RenewedAt = renewedAt;
            else if (!held[index].IsSettling)
                Lose(held[index], "it had ended, and another worker has its messages");
        }
    }

    private void Lose(HeldClaim held, string reason)
    {
        Log.ClaimLost(parts.Logger, parts.Options.Queue, held.Claim.Batch.Count, reason);
        held.Lose();
    }

    private TimeSpan LeastLeft(List<HeldClaim> held)
    {
        var least = parts.Options.ClaimTimeLimit;
        foreach (var claim in held)
            least = Least(least, parts.Held.Left(claim));
        return least > TimeSpan.Zero ? least : TimeSpan.Zero;
    }
}
