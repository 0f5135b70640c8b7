using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Runs all tasks of a receiver that has found its queue, until the receiver stops or the queue is lost.</summary>
internal sealed class ReceiverSession(ReceiverParts parts, IMessageHandler<QueueMessage> handler, QueueEntry queue)
{
    // Idle queues need no other connection than upkeep's, which takes some milliseconds. But an upkeep that fails, or has much to do, holds nothing up.
    private static readonly TimeSpan FirstLookTime = TimeSpan.FromMilliseconds(100);

    public async Task RunAsync()
    {
        using var settled = new CancellationTokenSource();
        var upkeep = new Upkeep(parts, queue);
        var others = Task.WhenAll(parts.EndWithAsync(upkeep.RunAsync()), WakeAsync(upkeep.Looked));
        var renewal = parts.EndWithAsync(new Renewal(parts).RunAsync(settled.Token));
        var subscription = new QueueSubscription(queue.Id, parts.Signal.Wake, () => parts.UpkeepAlarm.RingWithin(TimeSpan.Zero), parts.Logger);
        parts.Connections.Listener.Add(subscription);
        try
        {
            var handling = HandleAsync();
            if (await Task.WhenAny(handling, parts.QueueLost).ConfigureAwait(false) == parts.QueueLost)
                await parts.EndAsync().ConfigureAwait(false);
            await handling.ConfigureAwait(false);
        }
        finally
        {
            parts.Connections.Listener.Remove(subscription);
            await parts.Stop.StopAsync().ConfigureAwait(false);
            await settled.CancelAsync().ConfigureAwait(false);
            await Task.WhenAll(renewal, others).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            // A task that failed has left its claims, which end at their time limit.
            parts.Held.Snapshot().ForEach(parts.Held.Remove);
            parts.Dead?.Tell(isLast: true);
        }
    }

    // Messages that are already waiting send no notification.
    private async Task WakeAsync(Task looked)
    {
        await looked.WaitAsync(FirstLookTime, parts.TimeProvider, parts.Stop.Stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!looked.IsCompleted)
            parts.Signal.Wake();
    }

    private Task HandleAsync()
    {
        var runner = new BatchRunner(parts, handler);
        if (parts.Options.Prefetch > 0)
            return new Prefetcher(parts, runner).RunAsync();
        var exchanges = new SharedExchanges(parts);
        var workers = new Task[parts.Options.Concurrency];
        for (var index = 0; index < workers.Length; index++)
            workers[index] = parts.EndWithAsync(new Worker(parts, exchanges, runner).RunAsync());
        return Task.WhenAll(workers);
    }
}

/// <summary>The objects that the tasks of one receiver's session share.</summary>
internal sealed class ReceiverParts : IAsyncDisposable
{
    // As long as Npgsql waits by default for the end of a statement that it has cancelled.
    private static readonly TimeSpan CancelLimit = TimeSpan.FromSeconds(2);

    private readonly TaskCompletionSource _queueLost = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public ReceiverParts(
        NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, IClaimStore store, ReceiverCounters counters, ReceiverHealth health, Intake intake, StopPhases stop, TimeProvider timeProvider,
        ILogger logger)
    {
        (Options, Store, Counters, Health, Intake, TimeProvider, Logger) = (options, store, counters, health, intake, timeProvider, logger);
        Stop = new StopPhases(stop);
        Policy = new OutcomePolicy(options);
        Held = new HeldClaims(timeProvider, options.ClaimTimeLimit, intake);
        UpkeepAlarm = new Alarm(timeProvider);
        Connections = ReceiverConnections.Join(dataSource, options, timeProvider);
    }

    public PostgresQueueReceiverOptions Options { get; }

    public IClaimStore Store { get; }

    public ReceiverCounters Counters { get; }

    public ReceiverHealth Health { get; }

    public Intake Intake { get; }

    /// <summary>The instruments; null for none.</summary>
    public QueueMetrics? Metrics { get; init; }

    public bool IsOutbox { get; init; }

    /// <summary>Tells which messages died; null for no one.</summary>
    public DeadReport? Dead { get; init; }

    /// <summary>Reads the queue's depth; null for none.</summary>
    public QueueDepthReader? Depth { get; init; }

    /// <summary>The session's phases, which end with the receiver's.</summary>
    public StopPhases Stop { get; }

    public TimeProvider TimeProvider { get; }

    public ILogger Logger { get; }

    public OutcomePolicy Policy { get; }

    public HeldClaims Held { get; }

    public WorkSignal Signal { get; } = new();

    public Alarm UpkeepAlarm { get; }

    public ReceiverConnections Connections { get; }

    /// <summary>Completes when the queue on the server is no longer the one that this receiver found: its tables were dropped, migrated or re-created.</summary>
    public Task QueueLost => _queueLost.Task;

    /// <summary>A sentence when all handlers have run for long, so that none is left for other messages; null while one is left.</summary>
    public string? SlowHandlers
    {
        get
        {
            // An outbox has none of these settings, and says itself why nothing leaves.
            if (IsOutbox)
                return null;
            var most = Options.Shards > 0 ? Math.Min(Options.Shards, Options.Concurrency) : Options.Concurrency;
            var (limit, name) = Options.HandlerTimeLimit is { } time ? (time, nameof(Options.HandlerTimeLimit)) : (Options.ClaimTimeLimit, nameof(Options.ClaimTimeLimit));
            if (Held.CountHandling(limit) < most)
                return null;
            // No more than one handler runs for each shard.
            var raised = most == Options.Shards ? "it" : $"it or {nameof(Options.Concurrency)}";
            return $"All {most} handlers have run for longer than {name} ({limit}), so nothing else is handled. If they hang, set {nameof(Options.HandlerTimeLimit)}; if they need that long, raise {raised}.";
        }
    }

    /// <summary>Reports a task's failure.</summary>
    public void Failed(object task, Exception exception)
    {
        Health.Failed(task, exception);
        if (ServerFault.LosesQueue(exception))
            _queueLost.TrySetResult();
    }

    /// <summary>Lets the session end when one of its tasks fails, which only a clock or a lack of memory makes it do: the next session has all of them again.</summary>
    public async Task EndWithAsync(Task task)
    {
        await task.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (task.Exception is { InnerException: { } fault })
        {
            Failed(this, fault);
            await Stop.StopAsync().ConfigureAwait(false);
        }

        await task.ConfigureAwait(false);
    }

    /// <summary>Waits for a task's statement, and reports when it has not ended in time. When the server accepts and never answers, Npgsql first opens another connection to cancel the statement, and waits for
    /// that: for half a minute by default.</summary>
    public async Task<T> WatchAsync<T>(object task, Task<T> statement)
    {
        await ((Task)statement).WaitAsync(Options.CommandTimeout + CancelLimit, TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!statement.IsCompleted)
            Failed(task, new NpgsqlException($"The server has not answered within {Options.CommandTimeout} ({nameof(PostgresQueueReceiverOptions.CommandTimeout)})."));
        return await statement.ConfigureAwait(false);
    }

    /// <summary>Ends the session: claims nothing more, and cancels the handlers, because their messages are gone.</summary>
    public async Task EndAsync()
    {
        Log.QueueLost(Logger, Options.Queue);
        await Stop.StopAsync().ConfigureAwait(false);
        Held.Cancel();
        await Stop.AbandonAsync().ConfigureAwait(false);
    }

    public async ValueTask DisposeAsync()
    {
        await Connections.DisposeAsync().ConfigureAwait(false);
        Stop.Dispose();
    }
}

/// <summary>The phases of a receiver's stop. Each phase includes the ones before it.</summary>
internal sealed class StopPhases(StopPhases? outer = null) : IDisposable
{
    private readonly CancellationTokenSource _stopping = CancellationTokenSource.CreateLinkedTokenSource(outer?.Stopping ?? CancellationToken.None);
    private readonly CancellationTokenSource _abandoning = CancellationTokenSource.CreateLinkedTokenSource(outer?.Abandoning ?? CancellationToken.None);
    private readonly CancellationTokenSource _closing = CancellationTokenSource.CreateLinkedTokenSource(outer?.Closing ?? CancellationToken.None);

    /// <summary>Cancelled when the receiver claims no more.</summary>
    public CancellationToken Stopping => _stopping.Token;

    /// <summary>Cancelled when the receiver no longer waits for handlers, and gives back their messages.</summary>
    public CancellationToken Abandoning => _abandoning.Token;

    /// <summary>Cancelled when the receiver no longer waits for the server.</summary>
    public CancellationToken Closing => _closing.Token;

    public Task StopAsync() => CancelAsync(_stopping);

    public Task AbandonAsync() => CancelAsync(_abandoning);

    public Task CloseAsync() => CancelAsync(_closing);

    public void Dispose()
    {
        _stopping.Dispose();
        _abandoning.Dispose();
        _closing.Dispose();
    }

    // Npgsql's callback on the token throws if its connection is being closed at that moment (an ObjectDisposedException in 10.0.0). The stop continues.
    private static async Task CancelAsync(CancellationTokenSource phase)
    {
        try
        {
            await phase.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        catch (ObjectDisposedException)
        {
            // The session has ended in the meantime.
        }
    }
}

/// <summary>Finds a receiver's queue as soon as the server can be reached, and creates the schema and the queue if they do not exist.</summary>
internal sealed class QueueFinder(NpgsqlDataSource dataSource, Tables tables, PostgresQueueReceiverOptions options, ReceiverHealth health, TimeProvider timeProvider, ILogger logger)
{
    private readonly RetrySchedule _schedule = new(options.ReconnectDelay, options.MaxReconnectDelay);

    /// <summary>Tries until the queue is found.</summary>
    /// <param name="tried">Called after each failed attempt.</param>
    /// <param name="stopping">Ends the search; the result is null then.</param>
    public async Task<QueueEntry?> FindAsync(Action tried, CancellationToken stopping)
    {
        var failures = 0;
        var isLogged = false;
        while (!stopping.IsCancellationRequested)
        {
            try
            {
                var queue = await FindOnceAsync(stopping).ConfigureAwait(false);
                health.Succeeded(this);
                if (queue.Shards == options.Shards)
                    return queue;
                var mismatch = $"{nameof(options.Shards)} is {options.Shards}, but queue {options.Queue} was created with {queue.Shards}: set it to {queue.Shards}, or use another queue.";
                health.Stopped(mismatch);
                if (!isLogged)
                    Log.ShardsMismatched(logger, options.Queue, mismatch);
                isLogged = true;
            }
            catch (OperationCanceledException) when (stopping.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                health.Failed(this, exception);
            }

            tried();
            await Task.Delay(_schedule.DelayAfter(++failures, Random.Shared), timeProvider, stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }

        health.Forget(this);
        return null;
    }

    private async Task<QueueEntry> FindOnceAsync(CancellationToken stopping)
    {
        // A new gate and a new directory, which remember nothing: the tables may have been dropped, and the queue may have been re-created with another number of shards.
        var gate = new SchemaGate(dataSource, options.Schema, options.CreateSchema);
        await using (gate.ConfigureAwait(false))
            await gate.PassAsync(stopping).ConfigureAwait(false);
        return await new QueueDirectory(dataSource, tables).FindOrCreateAsync(options.Queue, options.Shards, stopping).ConfigureAwait(false);
    }
}
