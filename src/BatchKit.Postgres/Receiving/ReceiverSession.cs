using BatchKit.Postgres.Schema;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Runs all tasks of a receiver that has found its queue, until the receiver stops.</summary>
internal sealed class ReceiverSession(ReceiverParts parts, IQueueHandler handler, Tables tables, QueueEntry queue)
{
    public async Task RunAsync()
    {
        using var settled = new CancellationTokenSource();
        var listener = new QueueListener(parts.DataSource, tables, parts.Options, parts.Signal.Wake, parts.TimeProvider, parts.Logger);
        var others = Task.WhenAll(new Upkeep(parts).RunAsync(), listener.RunAsync(queue, parts.Stop.Stopping));
        var renewal = new Renewal(parts).RunAsync(settled.Token);
        try
        {
            // Messages that wait already send no notification.
            parts.Signal.Wake();
            await HandleAsync().ConfigureAwait(false);
        }
        finally
        {
            await settled.CancelAsync().ConfigureAwait(false);
            await renewal.ConfigureAwait(false);
            await others.ConfigureAwait(false);
        }
    }

    private Task HandleAsync()
    {
        var runner = new BatchRunner(parts, handler);
        if (parts.Options.Prefetch > 0)
            return new Prefetcher(parts, runner).RunAsync();
        var workers = new Task[parts.Options.Concurrency];
        for (var index = 0; index < workers.Length; index++)
            workers[index] = new Worker(parts, runner).RunAsync();
        return Task.WhenAll(workers);
    }
}

/// <summary>The objects that the tasks of one receiver share.</summary>
internal sealed class ReceiverParts(
    NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, IClaimStore store, ReceiverCounters counters, ReceiverHealth health, StopPhases stop, TimeProvider timeProvider, ILogger logger) : IAsyncDisposable
{
    public NpgsqlDataSource DataSource { get; } = dataSource;

    public PostgresQueueReceiverOptions Options { get; } = options;

    public IClaimStore Store { get; } = store;

    public ReceiverCounters Counters { get; } = counters;

    public ReceiverHealth Health { get; } = health;

    public StopPhases Stop { get; } = stop;

    public TimeProvider TimeProvider { get; } = timeProvider;

    public ILogger Logger { get; } = logger;

    public OutcomePolicy Policy { get; } = new(options);

    public HeldClaims Held { get; } = new(timeProvider, options.ClaimTimeLimit);

    public WorkSignal Signal { get; } = new();

    public Alarm UpkeepAlarm { get; } = new(timeProvider);

    public CareConnection CareConnection { get; } = new(dataSource);

    public ValueTask DisposeAsync() => CareConnection.DisposeAsync();
}

/// <summary>The phases of a receiver's stop. Each phase includes the ones before it.</summary>
internal sealed class StopPhases : IDisposable
{
    private readonly CancellationTokenSource _stopping = new();
    private readonly CancellationTokenSource _abandoning = new();
    private readonly CancellationTokenSource _closing = new();

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

    // Npgsql's callback on the token throws when its connection is being closed at that moment (seen with 10.0.0: ObjectDisposedException). The stop goes on.
    private static async Task CancelAsync(CancellationTokenSource phase) => await phase.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
}

/// <summary>
/// The connection of upkeep and renewal, which take turns. It stays open as long as the receiver runs: returned each second, the pool would reset it each second, which would double an idle receiver's load
/// on the server.
/// </summary>
internal sealed class CareConnection(NpgsqlDataSource dataSource) : IAsyncDisposable
{
    private readonly SemaphoreSlim _turn = new(initialCount: 1);
    private readonly KeptConnection _connection = new(dataSource);

    public async Task<T> UseAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            return await _connection.UseAsync(use, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    public async ValueTask DisposeAsync()
    {
        await _connection.DisposeAsync().ConfigureAwait(false);
        _turn.Dispose();
    }
}
