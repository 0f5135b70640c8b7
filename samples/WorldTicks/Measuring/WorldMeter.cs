using BatchKit.Postgres;
using Npgsql;
using WorldTicks.Hosting;
using WorldTicks.Ledger;
using WorldTicks.World;

namespace WorldTicks.Measuring;

/// <summary>Reads everybody's counters: the world's, the queues', and the workers' reports. One thread at a time.</summary>
internal sealed class WorldMeter(
    GameWorld world, OutputBuffer output, PostgresQueueAdmin admin, LedgerReader reader, TaskTally tally, TicksServer server, TicksClock clock)
{
    private static readonly string[] Queues = [TaskQueues.Npc, TaskQueues.Weather];

    private long _deadBefore;
    private WorldSnapshot _last = new() { At = TimeSpan.Zero };

    /// <summary>Says what is there before the world begins: it belongs to others.</summary>
    /// <returns>How many tasks wait or are held by workers.</returns>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task<long> BeginAsync(CancellationToken cancellationToken)
    {
        var before = await CountAsync(_last, cancellationToken);
        _deadBefore = before.Dead;
        await reader.ForgetOldAsync(world.Run, cancellationToken);
        return before.Open;
    }

    /// <summary>Reads all; what the server does not tell now is as it was, and <see cref="WorldSnapshot.Fault"/> says why.</summary>
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

    // In the order in which a task moves; see TaskBalance.
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
            Dead = Math.Max(0, counts.Sum(queue => queue.Dead) - _deadBefore),
            OldestAge = counts.Max(queue => queue.OldestAge),
        };
    }
}
