using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Wakes the receivers of queues: a NOTIFY of its own after the commit, at most one a queue and interval, from one task that its owner disposes.</summary>
/// <remarks>A notification that fails is logged by nobody and lost: receivers poll as well.</remarks>
internal sealed class QueueNotifier(NpgsqlDataSource dataSource, Tables tables, TimeSpan interval, TimeProvider timeProvider) : IAsyncDisposable
{
    /// <summary>Says that a queue has new messages; returns at once. Any thread.</summary>
    public void Notify(QueueEntry queue) => throw new NotSupportedException($"{dataSource is null} {tables.Quoted} {interval} {timeProvider is null} {queue}");

    /// <summary>Sends what is due, and ends.</summary>
    public ValueTask DisposeAsync() => throw new NotSupportedException();
}
