using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Looks at queues and puts them right: counts, dead messages, replay, purge. What the tool <c>batchkit</c> stands on.</summary>
/// <remarks>Any thread; each call is a statement of its own.</remarks>
public sealed class PostgresQueueAdmin
{
    /// <summary>Makes it; it does not connect yet.</summary>
    /// <param name="dataSource">The database; the caller's to dispose.</param>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <exception cref="ArgumentException">The name is not possible.</exception>
    public PostgresQueueAdmin(NpgsqlDataSource dataSource, string schema = "batchkit") => throw new NotSupportedException($"{dataSource is null} {new Tables(schema) is null}");

    /// <summary>Counts every queue's messages by state.</summary>
    /// <param name="cancellationToken">Ends it.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public Task<IReadOnlyList<QueueCounts>> ListAsync(CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <summary>Reads dead messages, the latest first.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="limit">The most to read; 100 by default.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    public Task<IReadOnlyList<DeadMessage>> ListDeadAsync(string queue, int limit = 100, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <summary>Brings dead messages back into their queue, as new: no attempts, their first order.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="ids">Which; all when null.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <returns>How many came back.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    public Task<int> ReplayAsync(string queue, IReadOnlyCollection<long>? ids = null, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <summary>Deletes dead messages.</summary>
    /// <inheritdoc cref="ReplayAsync" path="/param"/>
    /// <returns>How many were deleted.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    public Task<int> DeleteDeadAsync(string queue, IReadOnlyCollection<long>? ids = null, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <summary>Deletes everything that waits in a queue; what is being handled and what is dead stays.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <returns>How many were deleted.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    public Task<long> PurgeAsync(string queue, CancellationToken cancellationToken = default) => throw new NotSupportedException();
}
