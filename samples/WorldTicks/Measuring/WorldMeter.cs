using BatchKit.Postgres;
using Npgsql;
using WorldTicks.Hosting;
using WorldTicks.Ledger;
using WorldTicks.World;

namespace WorldTicks.Measuring;

/// <summary>Reads the counters of the world and the queues, and the workers' reports. Not thread-safe.</summary>
internal sealed class WorldMeter(
    GameWorld world, OutputBuffer output, PostgresQueueAdmin admin, LedgerReader reader, TaskTally tally, TicksServer server, RunClock clock)
{
    // The most tasks that may be moved to the dead table between the count and the list.
    private const int MostNewDead = 1000;

    private static readonly string[] Queues = [TaskQueues.Npc, TaskQueues.Weather];

    private long _allDead;
    private long _ownDead;
    private WorldSnapshot _last = new() { At = TimeSpan.Zero };

    /// <summary>Counts the tasks of earlier worlds, before this world begins.</summary>
    /// <returns>The number of tasks that wait or that workers hold.</returns>
    /// <exception cref="StartException">The server became unavailable.</exception>
    public async Task<long> BeginAsync(CancellationToken cancellationToken)
    {
        try
        {
            var before = await CountAsync(_last, cancellationToken);
            await reader.ForgetOldAsync(world.Run, cancellationToken);
            return before.Open;
        }
        catch (Exception exception) when (exception is NpgsqlException or TimeoutException or IOException)
        {
            throw new StartException(server.Explain(exception));
        }
    }

    /// <summary>Reads all counters. Where the server does not answer, the last figures stay, and <see cref="WorldSnapshot.Fault"/> gives the reason.</summary>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    public async Task<WorldSnapshot> TakeAsync(CancellationToken cancellationToken)
    {
        var own = TakeOwn(_last);
        try
        {
            _last = await TakeTogetherAsync(own, cancellationToken);
        }
        catch (Exception exception) when (exception is NpgsqlException or TimeoutException or IOException)
        {
            _last = own with { Fault = server.Explain(exception) };
        }

        return _last;
    }

    // In the order in which a task passes through the parts; see TaskBalance.
    private async Task<WorldSnapshot> TakeTogetherAsync(WorldSnapshot own, CancellationToken cancellationToken)
    {
        var snapshot = await CountAsync(own, cancellationToken);
        await reader.ReadAsync(world.Run, tally.Take, cancellationToken);
        snapshot = snapshot with
        {
            Done = tally.Done,
            Doubled = tally.Doubled,
            Retaken = tally.Retaken,
            OutOfOrder = tally.OutOfOrder,
            Latencies = tally.CopyLatencies(),
            Workers = await reader.ReadWorkersAsync(cancellationToken),
            ByWorker = tally.CopyWorkers(),
            Fault = null,
        };
        return snapshot with { Balance = TaskBalance.Of(snapshot) };
    }

    private WorldSnapshot TakeOwn(WorldSnapshot last)
    {
        var (tasks, statistics) = (world.Tasks, output.GetStatistics());
        return last with
        {
            At = clock.Now,
            Ticks = world.Ticks,
            Tasks = tasks,
            Shouts = world.Shouts,
            Poisoned = world.Poisoned,
            Buffered = statistics.PendingMessages,
            Unsent = statistics.DroppedMessages + statistics.FailedMessages,
            Sends = statistics.Sends,
        };
    }

    private async Task<WorldSnapshot> CountAsync(WorldSnapshot snapshot, CancellationToken cancellationToken)
    {
        var counts = (await admin.ListAsync(cancellationToken)).Where(counts => Queues.Contains(counts.Queue, StringComparer.Ordinal)).ToArray();
        return snapshot with
        {
            Ready = counts.Sum(queue => queue.Ready),
            Delayed = counts.Sum(queue => queue.Delayed),
            Claimed = counts.Sum(queue => queue.Claimed),
            Dead = await CountDeadAsync(counts, cancellationToken),
            OldestAge = counts.Max(queue => queue.OldestAge),
        };
    }

    // Dead tasks of other worlds stay in the table for days. Each task names its world; the table is read again when the number of dead tasks has changed.
    private async Task<long> CountDeadAsync(QueueCounts[] counts, CancellationToken cancellationToken)
    {
        var all = counts.Sum(queue => queue.Dead);
        if (all == _allDead)
            return _ownDead;
        var own = 0;
        foreach (var queue in counts.Where(queue => queue.Dead > 0))
        {
            var dead = await admin.ListDeadAsync(queue.Queue, (int)Math.Min(queue.Dead + MostNewDead, int.MaxValue), cancellationToken);
            own += dead.Count(message => WorldTask.TryRead(message.Payload.Span, out var task) && task.Run == world.Run);
        }

        (_allDead, _ownDead) = (all, own);
        return own;
    }
}
