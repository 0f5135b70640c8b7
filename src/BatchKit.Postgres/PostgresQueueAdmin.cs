using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Transports;
using Npgsql;
using NpgsqlTypes;

namespace BatchKit.Postgres;

/// <summary>Inspects and repairs queues: counts messages, and lists, replays, deletes, purges and cancels them. The tool <c>batchkit</c> uses it.</summary>
/// <remarks>Thread-safe. Each call makes all of its changes or none, and does not join an ambient transaction. A call has no time limit, because its duration depends on the number of messages. Only the token cancels it.</remarks>
public sealed class PostgresQueueAdmin
{
    private readonly NpgsqlDataSource _dataSource;
    private readonly Tables _tables;
    private readonly AdminStatements _statements;

    /// <summary>Creates an instance; it does not connect yet.</summary>
    /// <param name="dataSource">The database. The caller disposes it.</param>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <exception cref="ArgumentException">A schema can't have that name.</exception>
    public PostgresQueueAdmin(NpgsqlDataSource dataSource, string schema = "batchkit")
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        QueueLimits.ThrowIfNoSchema(schema);
        _dataSource = dataSource;
        _tables = new Tables(schema);
        _statements = new AdminStatements(_tables);
    }

    /// <summary>Counts the messages of every queue by state, ordered by the queues' names.</summary>
    /// <remarks>It reads all rows: use it for people and dashboards, not in a loop.</remarks>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public Task<IReadOnlyList<QueueCounts>> ListAsync(CancellationToken cancellationToken = default) => Detached.UseAsync(_dataSource, ListAsync, cancellationToken);

    private async Task<IReadOnlyList<QueueCounts>> ListAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        using var batch = Unlimited(connection, new NpgsqlBatchCommand(_statements.Count));
        var reader = await ReadAsync(batch, cancellationToken).ConfigureAwait(false);
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

    /// <summary>Lists dead messages, the latest first.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="limit">The maximum number of messages to list; 100 by default.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <exception cref="ArgumentOutOfRangeException">The limit is below 1.</exception>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<IReadOnlyList<DeadMessage>> ListDeadAsync(string queue, int limit = 100, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(limit, 1);
        var (_, messages) = await RunAsync(queue, _statements.ListDead, ReadDeadAsync, cancellationToken, new NpgsqlParameter<int> { TypedValue = limit }).ConfigureAwait(false);
        return messages;
    }

    /// <summary>Moves dead messages back into their queue, with no attempts counted and in their original order, and wakes receivers.</summary>
    /// <remarks>
    /// A message stays dead, and is not counted, when its uniqueness key is in use again; of several dead messages with the same key, only the first is moved. A frame, as of an outbox, gets another producer, so that
    /// no one who has later output of its sender drops it as a repeat; what was delivered of it before is delivered again. A signed frame can't be changed: when its receiver drops it, it is dead again, with the reason.
    /// </remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="ids">The ids of the messages; all messages when null.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <returns>How many were moved.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<int> ReplayAsync(string queue, IReadOnlyCollection<long>? ids = null, CancellationToken cancellationToken = default)
    {
        var (entry, replayed) = await RunAsync(queue, _statements.Replay, ExecuteAsync, cancellationToken, Chosen(ids), new NpgsqlParameter<byte[]> { TypedValue = ReplayedFrame.DrawMark() }).ConfigureAwait(false);
        if (replayed > 0)
        {
            var notifier = new QueueNotifier(_dataSource, _tables, TimeSpan.Zero, TimeProvider.System, usesPreparedStatements: false);
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

    /// <summary>Deletes all waiting messages of a queue, and frees their uniqueness keys. Messages that are being handled, and dead ones, stay.</summary>
    /// <remarks>While it runs, no message of an ordered queue is claimed or settled.</remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <returns>How many were deleted.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<long> PurgeAsync(string queue, CancellationToken cancellationToken = default)
    {
        var (_, purged) = await RunAsync(queue, _statements.Purge, ReadCountAsync, cancellationToken).ConfigureAwait(false);
        return purged;
    }

    /// <summary>Deletes the waiting message with a uniqueness key, also one that failed and waits for its next attempt, and frees the key. A message that is being handled, or is dead, stays.</summary>
    /// <remarks>Workers that claim at the same moment decide it: the message is either deleted and never handled, or handled and not deleted.</remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="uniqueKey">The key that the message was enqueued with; see <see cref="QueueMessageHeader.UniqueKeyProperty"/>.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <returns>True when a message was deleted; false when none waits with the key.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public Task<bool> CancelAsync(string queue, string uniqueKey, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(queue);
        ArgumentNullException.ThrowIfNull(uniqueKey);
        return Detached.UseAsync(_dataSource, async (connection, token) =>
        {
            var entry = await FindAsync(connection, queue, token).ConfigureAwait(false);
            return await UnlessImpossibleAsync(uniqueKey, () => CancelAsync(connection, entry, uniqueKey, token)).ConfigureAwait(false);
        }, cancellationToken);
    }

    private async Task<bool> CancelAsync(NpgsqlConnection connection, QueueEntry queue, string uniqueKey, CancellationToken cancellationToken)
    {
        // In one transaction, but two statements: what was parked before the lock was taken must be visible to the second.
        NpgsqlBatchCommand[] commands =
        [
            .. new[] { _statements.LockForCancel, _statements.Cancel }.Select(statement => new NpgsqlBatchCommand(statement)
            {
                Parameters = { new NpgsqlParameter<int> { TypedValue = queue.Id }, new NpgsqlParameter<string> { TypedValue = uniqueKey } },
            }),
        ];
        using var batch = Unlimited(connection, commands);
        return await ReadCountAsync(batch, cancellationToken).ConfigureAwait(false) > 0;
    }

    // Returns the connection to the pool before the caller continues, because the caller may need one.
    private Task<(QueueEntry Queue, TResult Result)> RunAsync<TResult>(
        string queue, string statement, Func<NpgsqlBatch, CancellationToken, Task<TResult>> run, CancellationToken cancellationToken, params NpgsqlParameter[] others)
    {
        ArgumentNullException.ThrowIfNull(queue);
        return Detached.UseAsync(_dataSource, async (connection, token) =>
        {
            var entry = await FindAsync(connection, queue, token).ConfigureAwait(false);
            var command = new NpgsqlBatchCommand(statement) { Parameters = { new NpgsqlParameter<int> { TypedValue = entry.Id } } };
            command.Parameters.AddRange(others);
            using var batch = Unlimited(connection, command);
            return (entry, await run(batch, token).ConfigureAwait(false));
        }, cancellationToken);
    }

    private async Task<QueueEntry> FindAsync(NpgsqlConnection connection, string queue, CancellationToken cancellationToken)
    {
        if (await UnlessImpossibleAsync(queue, () => TryFindAsync(connection, queue, cancellationToken)).ConfigureAwait(false) is { } entry)
            return entry;
        throw Detached.InSync(new KeyNotFoundException(
            $"There is no queue '{queue}' in the schema '{_tables.Schema}'. Check both names; a queue is created by its first message, or when its receiver starts."));
    }

    private async Task<QueueEntry?> TryFindAsync(NpgsqlConnection connection, string queue, CancellationToken cancellationToken)
    {
        using var batch = Unlimited(connection, new NpgsqlBatchCommand(_statements.Find) { Parameters = { new NpgsqlParameter<string> { TypedValue = queue } } });
        var reader = await ReadAsync(batch, cancellationToken).ConfigureAwait(false);
        await using var _ = reader.ConfigureAwait(false);
        return await reader.ReadAsync(cancellationToken).ConfigureAwait(false) ? new QueueEntry(reader.GetInt32(0), queue, reader.GetInt16(1)) : null;
    }

    // PostgreSQL does not accept a text that no queue can have as its name, and no message as its key.
    private static async Task<T?> UnlessImpossibleAsync<T>(string text, Func<Task<T>> look)
    {
        try
        {
            return QueueLimits.RefuseQueue(text) is null ? await look().ConfigureAwait(false) : default;
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.UntranslatableCharacter)
        {
            return default;
        }
    }

    // No time limit, neither Npgsql's nor the server's: the duration depends on the number of messages.
    private static NpgsqlBatch Unlimited(NpgsqlConnection connection, params ReadOnlySpan<NpgsqlBatchCommand> commands)
    {
        var batch = new NpgsqlBatch(connection) { Timeout = 0, BatchCommands = { new NpgsqlBatchCommand(ServerTimeLimit.Lift) } };
        foreach (var command in commands)
            batch.BatchCommands.Add(command);
        return batch;
    }

    // Returns the result of the last command.
    private static async Task<NpgsqlDataReader> ReadAsync(NpgsqlBatch batch, CancellationToken cancellationToken)
    {
        var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            for (var behind = batch.BatchCommands.Count; behind > 1; behind--)
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
            return reader;
        }
        catch
        {
            await reader.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    private static async Task<long> ReadCountAsync(NpgsqlBatch batch, CancellationToken cancellationToken)
    {
        var reader = await ReadAsync(batch, cancellationToken).ConfigureAwait(false);
        await using var _ = reader.ConfigureAwait(false);
        await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
        var count = reader.GetInt64(0);
        // An error of the commit is reported after the row.
        await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
        return count;
    }

    private static NpgsqlParameter Chosen(IReadOnlyCollection<long>? ids) =>
        new() { NpgsqlDbType = NpgsqlDbType.Array | NpgsqlDbType.Bigint, Value = ids is null ? DBNull.Value : ids.ToArray() };

    private static Task<int> ExecuteAsync(NpgsqlBatch batch, CancellationToken cancellationToken) => batch.ExecuteNonQueryAsync(cancellationToken);

    private static async Task<IReadOnlyList<DeadMessage>> ReadDeadAsync(NpgsqlBatch batch, CancellationToken cancellationToken)
    {
        var reader = await ReadAsync(batch, cancellationToken).ConfigureAwait(false);
        await using var _ = reader.ConfigureAwait(false);
        var messages = new List<DeadMessage>();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
            messages.Add(Read(reader));
        return messages;
    }

    private static DeadMessage Read(NpgsqlDataReader reader)
    {
        // Only ordered queues store the key in a column; the header always has it.
        var key = reader.IsDBNull(1) ? KeyOf(reader) : reader.GetString(1);
        return new DeadMessage(
            reader.GetInt64(0), key, reader.GetInt16(2), reader.GetString(3), reader.GetFieldValue<DateTimeOffset>(4), reader.GetFieldValue<DateTimeOffset>(5),
            reader.GetFieldValue<byte[]>(7));
    }

    private static string? KeyOf(NpgsqlDataReader reader)
    {
        try
        {
            return reader.IsDBNull(6) ? null : StoredHeader.Read(reader.GetFieldValue<byte[]>(6))?.Key;
        }
        catch (FrameFormatException)
        {
            // The message and the others are shown even if this version can't read the header.
            return null;
        }
    }
}

/// <summary>How many messages a queue has in each state.</summary>
/// <param name="Queue">Its name.</param>
/// <param name="Shards">The number of shards of an ordered queue; 0 for a queue without order.</param>
/// <param name="Ready">Messages that can be claimed now.</param>
/// <param name="Delayed">New and failed messages that wait until they are due.</param>
/// <param name="Claimed">Messages that a worker holds.</param>
/// <param name="Dead">Messages that were given up.</param>
/// <param name="OldestAge">The time since the oldest ready or claimed message was enqueued; null when there is no such message.</param>
public sealed record QueueCounts(string Queue, int Shards, long Ready, long Delayed, long Claimed, long Dead, TimeSpan? OldestAge);

/// <summary>A message that was given up.</summary>
/// <param name="Id">Its number; see <see cref="QueueMessage.Id"/>.</param>
/// <param name="Key">The key that it was enqueued with; null when it had none, or this version can't read its header.</param>
/// <param name="Attempts">How many times it was handled.</param>
/// <param name="Error">Why its last attempt failed.</param>
/// <param name="EnqueuedAt">When it was enqueued.</param>
/// <param name="DiedAt">When it was given up.</param>
/// <param name="Payload">Its payload.</param>
public sealed record DeadMessage(long Id, string? Key, int Attempts, string Error, DateTimeOffset EnqueuedAt, DateTimeOffset DiedAt, ReadOnlyMemory<byte> Payload);
