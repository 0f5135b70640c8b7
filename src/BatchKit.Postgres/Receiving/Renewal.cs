using BatchKit.Transports;

namespace BatchKit.Postgres.Receiving;

/// <summary>Renews all claims at a third of their time limit, and tells the handlers of those that are lost: taken back by others, or past their limit by this process's clock because the server could not be asked.</summary>
internal sealed class Renewal(ReceiverParts parts)
{
    private const int RenewalsPerLimit = 3;

    private readonly RetrySchedule _schedule = new(parts.Options.ReconnectDelay, parts.Options.MaxReconnectDelay);

    /// <summary>Until the last claim is settled, which is after the stop began; the owner says when.</summary>
    public async Task RunAsync(CancellationToken settled)
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        var pause = parts.Options.ClaimTimeLimit / RenewalsPerLimit;
        var failures = 0;
        while (!settled.IsCancellationRequested)
        {
            await Task.Delay(pause, parts.TimeProvider, settled).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            var held = await KeptAsync().ConfigureAwait(false);
            try
            {
                if (held.Count > 0 && !settled.IsCancellationRequested)
                    await RenewAsync(held, settled).ConfigureAwait(false);
                (failures, pause) = (0, parts.Options.ClaimTimeLimit / RenewalsPerLimit);
                parts.Health.Succeeded(this);
            }
            catch (Exception) when (settled.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                parts.Health.Failed(this, exception);
                pause = Least(_schedule.DelayAfter(++failures, Random.Shared), LeastLeft(held));
            }
        }

        parts.Health.Forget(this);
    }

    private static TimeSpan Least(TimeSpan left, TimeSpan right) => left < right ? left : right;

    // Those that are still to be renewed; the ones whose time has passed are told.
    private async Task<List<HeldClaim>> KeptAsync()
    {
        var kept = new List<HeldClaim>();
        foreach (var held in parts.Held.Snapshot())
        {
            if (held.IsLost)
                continue;
            if (parts.Held.Left(held) > TimeSpan.Zero)
                kept.Add(held);
            else
                await LoseAsync(held, "it could not be renewed within its time limit").ConfigureAwait(false);
        }

        return kept;
    }

    private async Task RenewAsync(List<HeldClaim> held, CancellationToken settled)
    {
        // Nothing is to be waited for beyond the first claim's end, because its handler must be told then.
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(settled);
        using var limit = new CancellationTokenSource(LeastLeft(held), parts.TimeProvider);
        // Not on the timer's thread: what Npgsql throws there when its connection is just being closed would end the process.
        using var cutShort = limit.Token.Register(static ending => _ = ((CancellationTokenSource)ending!).CancelAsync(), ending);
        var renewedAt = parts.TimeProvider.GetTimestamp();
        var claims = held.ConvertAll(static held => held.Claim);
        var ended = await parts.CareConnection.UseAsync((connection, token) => parts.Store.RenewAsync(connection, claims, token), ending.Token).ConfigureAwait(false);
        foreach (var claim in held)
        {
            if (!ended.Contains(claim.Claim))
                claim.RenewedAt = renewedAt;
            else if (!claim.IsSettling)
                await LoseAsync(claim, "it had ended, and its messages are another worker's").ConfigureAwait(false);
        }
    }

    private async Task LoseAsync(HeldClaim held, string reason)
    {
        Log.ClaimLost(parts.Logger, parts.Options.Queue, held.Claim.Batch.Count, reason);
        await held.LoseAsync().ConfigureAwait(false);
    }

    private TimeSpan LeastLeft(List<HeldClaim> held)
    {
        var least = parts.Options.ClaimTimeLimit;
        foreach (var claim in held)
            least = Least(least, parts.Held.Left(claim));
        return least > TimeSpan.Zero ? least : TimeSpan.Zero;
    }
}
