using BatchKit.Postgres.Administration;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using Npgsql;
using NpgsqlTypes;

namespace BatchKit.Postgres;

/// <summary>Looks at queues and puts them right: counts, dead messages, replay, purge. What the tool <c>batchkit</c> stands on.</summary>
/// <remarks>Any thread. What a call changes, one statement changes: all of it, or nothing. It takes as long as the number of messages needs; only the token ends it.</remarks>
public sealed class PostgresQueueAdmin
{
    private readonly NpgsqlDataSource _dataSource;
    private readonly Tables _tables;
    private readonly AdminStatements _statements;

    /// <summary>Makes it; it does not connect yet.</summary>
    /// <param name="dataSource">The database; the caller's to dispose.</param>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <exception cref="ArgumentException">The name is not possible.</exception>
    public PostgresQueueAdmin(NpgsqlDataSource dataSource, string schema = "batchkit")
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        QueueLimits.ThrowIfNoSchema(schema);
        _dataSource = dataSource;
        _tables = new Tables(schema);
        _statements = new AdminStatements(_tables);
    }

    /// <summary>Counts every queue's messages by state, in the order of their names.</summary>
    /// <remarks>Reads all rows, so it is for people and dashboards, not for a loop.</remarks>
    /// <param name="cancellationToken">Ends it.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<IReadOnlyList<QueueCounts>> ListAsync(CancellationToken cancellationToken = default)
    {
        var connection = await _dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
        await using var _ = connection.ConfigureAwait(false);
        using var command = Command(connection, _statements.Count);
        var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        await using var __ = reader.ConfigureAwait(false);
        var queues = new List<QueueCounts>();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            queues.Add(new QueueCounts(
                reader.GetString(0), reader.GetInt16(1), reader.GetInt64(2), reader.GetInt64(3), reader.GetInt64(4), reader.GetInt64(5),
                reader.IsDBNull(6) ? null : reader.GetFieldValue<TimeSpan>(6)));
        }

        return queues;
    }

    /// <summary>Reads dead messages, the latest first.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="limit">The most to read; 100 by default.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <exception cref="ArgumentOutOfRangeException">The limit is below 1.</exception>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<IReadOnlyList<DeadMessage>> ListDeadAsync(string queue, int limit = 100, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(limit, 1);
        var (_, messages) = await RunAsync(queue, _statements.ListDead, ReadDeadAsync, cancellationToken, new NpgsqlParameter<int> { TypedValue = limit }).ConfigureAwait(false);
        return messages;
    }

    /// <summary>Brings dead messages back into their queue, as new: no attempts, their first order. Receivers are woken.</summary>
    /// <remarks>
    /// A message whose uniqueness key is in use again stays dead and is not counted, and so do all but the first of several that have one key.
    /// </remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="ids">Which; all when null.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <returns>How many came back.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<int> ReplayAsync(string queue, IReadOnlyCollection<long>? ids = null, CancellationToken cancellationToken = default)
    {
        var (entry, replayed) = await RunAsync(queue, _statements.Replay, ExecuteAsync, cancellationToken, Chosen(ids)).ConfigureAwait(false);
        if (replayed > 0)
        {
            var notifier = new QueueNotifier(_dataSource, _tables, TimeSpan.Zero, TimeProvider.System);
            await using var _ = notifier.ConfigureAwait(false);
            notifier.Notify(entry);
        }

        return replayed;
    }

    /// <summary>Deletes dead messages.</summary>
    /// <inheritdoc cref="ReplayAsync" path="/param"/>
    /// <returns>How many were deleted.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<int> DeleteDeadAsync(string queue, IReadOnlyCollection<long>? ids = null, CancellationToken cancellationToken = default)
    {
        var (_, deleted) = await RunAsync(queue, _statements.DeleteDead, ExecuteAsync, cancellationToken, Chosen(ids)).ConfigureAwait(false);
        return deleted;
    }

    /// <summary>Deletes everything that waits in a queue, and frees its uniqueness keys; what is being handled and what is dead stays.</summary>
    /// <remarks>In an ordered queue nothing is claimed or settled while it runs.</remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <returns>How many were deleted.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<long> PurgeAsync(string queue, CancellationToken cancellationToken = default)
    {
        var (_, purged) = await RunAsync(
            queue, _statements.Purge, static async (command, token) => (long)(await command.ExecuteScalarAsync(token).ConfigureAwait(false))!, cancellationToken).ConfigureAwait(false);
        return purged;
    }

    // The connection goes back before the caller goes on, which may need one.
    private async Task<(QueueEntry Queue, TResult Result)> RunAsync<TResult>(
        string queue, string statement, Func<NpgsqlCommand, CancellationToken, Task<TResult>> run, CancellationToken cancellationToken, NpgsqlParameter? second = null)
    {
        ArgumentNullException.ThrowIfNull(queue);
        var connection = await _dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
        await using var _ = connection.ConfigureAwait(false);
        var entry = await FindAsync(connection, queue, cancellationToken).ConfigureAwait(false);
        using var command = Command(connection, statement);
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = entry.Id });
        if (second is not null)
            command.Parameters.Add(second);
        return (entry, await run(command, cancellationToken).ConfigureAwait(false));
    }

    private async Task<QueueEntry> FindAsync(NpgsqlConnection connection, string queue, CancellationToken cancellationToken)
    {
        // What no queue can be called PostgreSQL may not take as text either.
        if (QueueLimits.RefuseQueue(queue) is null)
        {
            using var command = Command(connection, _statements.Find);
            command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = queue });
            var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using var _ = reader.ConfigureAwait(false);
            if (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
                return new QueueEntry(reader.GetInt32(0), queue, reader.GetInt16(1));
        }

        throw new KeyNotFoundException($"There is no queue '{queue}' in the schema '{_tables.Schema}'.");
    }

    // No time limit: how long a statement takes depends on how much there is.
    private static NpgsqlCommand Command(NpgsqlConnection connection, string statement) => new(statement, connection) { CommandTimeout = 0 };

    private static NpgsqlParameter Chosen(IReadOnlyCollection<long>? ids) =>
        new() { NpgsqlDbType = NpgsqlDbType.Array | NpgsqlDbType.Bigint, Value = ids is null ? DBNull.Value : ids.ToArray() };

    private static Task<int> ExecuteAsync(NpgsqlCommand command, CancellationToken cancellationToken) => command.ExecuteNonQueryAsync(cancellationToken);

    private static async Task<IReadOnlyList<DeadMessage>> ReadDeadAsync(NpgsqlCommand command, CancellationToken cancellationToken)
    {
        var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        await using var _ = reader.ConfigureAwait(false);
        var messages = new List<DeadMessage>();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
            messages.Add(Read(reader));
        return messages;
    }

    private static DeadMessage Read(NpgsqlDataReader reader)
    {
        // Only ordered queues have the key as a column; the header has it in all.
        var key = reader.IsDBNull(1) ? KeyOf(reader) : reader.GetString(1);
        return new DeadMessage(
            reader.GetInt64(0), key, reader.GetInt16(2), reader.GetString(3), reader.GetFieldValue<DateTimeOffset>(4), reader.GetFieldValue<DateTimeOffset>(5),
            reader.GetFieldValue<byte[]>(7));
    }

    private static string? KeyOf(NpgsqlDataReader reader) => reader.IsDBNull(6) ? null : StoredHeader.Read(reader.GetFieldValue<byte[]>(6))?.Key;
}
