using Npgsql;

namespace BatchKit.Postgres.Schema;

/// <summary>Finds queues by name, and creates them, with their shards, where there are none. Remembers what it found, up to a bound. Any thread.</summary>
internal sealed class QueueDirectory(Tables tables)
{
    /// <summary>Finds a queue, or creates it with so many shards.</summary>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public ValueTask<QueueEntry> FindOrCreateAsync(NpgsqlConnection connection, string name, int shards, CancellationToken cancellationToken) =>
        throw new NotSupportedException($"{tables.Queues} {connection.Host} {name} {shards} {cancellationToken.CanBeCanceled}");
}
