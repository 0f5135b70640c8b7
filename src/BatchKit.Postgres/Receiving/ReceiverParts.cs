using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>What the tasks of one receiver share.</summary>
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
