using System.Collections.Concurrent;
using Npgsql;
using NpgsqlTypes;

namespace BatchKit.Postgres.Schema;

/// <summary>A queue's row in the table.</summary>
/// <param name="Id">Its number in all other tables, and the payload of its notifications.</param>
/// <param name="Name">Its name.</param>
/// <param name="Shards">The number of shards of an ordered queue; 0 for a queue without order.</param>
internal sealed record QueueEntry(int Id, string Name, int Shards);

/// <summary>Finds queues by name, and creates missing ones with their shards. Remembers what it found, up to a limit. Thread-safe.</summary>
internal sealed class QueueDirectory(NpgsqlDataSource dataSource, Tables tables)
{
    // A name has up to 1 kB, so this is a few megabytes at most.
    private const int MaxRemembered = 4096;

    private readonly string _find = $"select id, shards from {tables.Queues} where name = $1";

    // Epochs begin at random, so that after a schema was dropped and re-created, no earlier holder of a shard has the current epoch by chance.
    private readonly string _create =
        $"""
        with made as (insert into {tables.Queues} (name, shards) values ($1, $2) on conflict (name) do nothing returning id, shards),
            slots as (
                insert into {tables.Shards} (queue, shard, epoch)
                select made.id, slot, (pg_catalog.random() * 4503599627370496::double precision)::bigint from made, pg_catalog.generate_series(0, made.shards - 1) as slot)
        select id, shards from made
        """;

    private readonly ConcurrentDictionary<string, QueueEntry> _remembered = new(StringComparer.Ordinal);

    /// <summary>Returns the remembered queue; null when the queue is not remembered.</summary>
    public QueueEntry? TryFind(string name) => _remembered.GetValueOrDefault(name);

    /// <summary>Finds a queue, or creates it with this number of shards. Uses a separate connection, because a queue created in a caller's transaction would be remembered after a rollback.</summary>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public ValueTask<QueueEntry> FindOrCreateAsync(string name, int shards, CancellationToken cancellationToken) =>
        TryFind(name) is { } entry ? ValueTask.FromResult(entry) : new ValueTask<QueueEntry>(FindOrCreateSlowAsync(name, shards, cancellationToken));

    /// <summary>Forgets all queues, because their tables are gone.</summary>
    public void Clear() => _remembered.Clear();

    private Task<QueueEntry> FindOrCreateSlowAsync(string name, int shards, CancellationToken cancellationToken) =>
        Detached.UseAsync(dataSource, (connection, token) => FindOrCreateAsync(connection, name, shards, token), cancellationToken);

    private async Task<QueueEntry> FindOrCreateAsync(NpgsqlConnection connection, string name, int shards, CancellationToken cancellationToken)
    {
        // When the queue is neither found nor created, another process has just created it, and the next query finds it.
        QueueEntry? entry;
        do
        {
            entry = await AskAsync(connection, _find, name, shards: null, cancellationToken).ConfigureAwait(false)
                ?? await AskAsync(connection, _create, name, shards, cancellationToken).ConfigureAwait(false);
        }
        while (entry is null);

        if (_remembered.Count >= MaxRemembered)
            _remembered.Clear();
        return _remembered[name] = entry;
    }

    private static async Task<QueueEntry?> AskAsync(NpgsqlConnection connection, string statement, string name, int? shards, CancellationToken cancellationToken)
    {
        var command = new NpgsqlCommand(statement, connection);
        await using (command.ConfigureAwait(false))
        {
            command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = name });
            if (shards is { } count)
                command.Parameters.Add(new NpgsqlParameter<short> { TypedValue = (short)count, NpgsqlDbType = NpgsqlDbType.Smallint });
            var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                var entry = await reader.ReadAsync(cancellationToken).ConfigureAwait(false) ? new QueueEntry(reader.GetInt32(0), name, reader.GetInt16(1)) : null;
                // An error of the commit is reported after the row. It is read here, so that a number that was not committed is not remembered.
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                return entry;
            }
        }
    }
}

/// <summary>
/// Checks, in each statement that uses a queue's number, that the queue still has it. After a schema was dropped and re-created, or restored, a remembered number may be another queue's.
/// </summary>
/// <remarks>The check is part of a statement that is sent anyway. It divides by the number of queues that it finds, so that a batch whose queue is gone fails as a whole and changes nothing.</remarks>
internal static class QueueGuard
{
    /// <summary>The error of a failed check.</summary>
    public const string Lost = PostgresErrorCodes.DivisionByZero;

    /// <summary>Returns an expression that is 1, or fails.</summary>
    /// <param name="tables">The schema's tables.</param>
    /// <param name="id">The parameter with the number.</param>
    /// <param name="name">The parameter with the name.</param>
    /// <param name="shards">The parameter with the number of shards.</param>
    public static string One(Tables tables, string id, string name, string shards) =>
        $"1 / (select pg_catalog.count(*) from {tables.Queues} where id = {id} and name = {name} and shards = {shards})";

    /// <summary>Returns an expression that is 1, or fails; its parameters are arrays.</summary>
    public static string Several(Tables tables, string ids, string names, string shards) =>
        $"""
        1 / (select case when pg_catalog.count(q.id) = pg_catalog.count(*) then 1 else 0 end from {Rows.Of(ids, names, shards)} as u (id, name, shards)
             left join {tables.Queues} as q on q.id = u.id and q.name = u.name and q.shards = u.shards)
        """;

    /// <summary>Creates the first command of a batch, with a check of one queue.</summary>
    public static NpgsqlBatchCommand CommandFor(Tables tables, QueueEntry queue, string select = "select") => new($"{select} {One(tables, "$1", "$2", "$3")}")
    {
        Parameters =
        {
            new NpgsqlParameter<int> { TypedValue = queue.Id },
            new NpgsqlParameter<string> { TypedValue = queue.Name },
            new NpgsqlParameter<short> { TypedValue = (short)queue.Shards },
        },
    };
}
