using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Sends batches to queues in PostgreSQL: a handle's name is a queue, and each message becomes a row.</summary>
/// <remarks>
/// One statement, one transaction and one notification for all messages of a send. A send whose commit was lost to view may be sent again: what is stored already is not stored twice. Needs no
/// connection until the first send. Register it with <c>UsePostgres</c>, or make it by hand and dispose it after the buffer; the data source stays the caller's.
/// </remarks>
public sealed class PostgresQueueTransport : IBatchTransport, IAsyncDisposable
{
    /// <summary>Makes a transport; it does not connect yet.</summary>
    /// <param name="dataSource">The database; the caller's to dispose, after this.</param>
    /// <param name="options">Its settings; the defaults when null.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public PostgresQueueTransport(NpgsqlDataSource dataSource, PostgresOptions? options = null, TimeProvider? timeProvider = null, ILogger<PostgresQueueTransport>? logger = null) =>
        throw new NotSupportedException();

    /// <summary>False: Npgsql encodes and writes on the caller's thread, which takes a millisecond for a thousand messages.</summary>
    public bool SendsWithoutBlocking => false;

    /// <inheritdoc/>
    public int MaxMessageBytes => throw new NotSupportedException();

    /// <summary>Inserts the batches' messages, and completes when they are committed.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The server can't be reached, or did not commit; the cause is the inner exception.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <summary>Sends the notifications that are due. Dispose the buffer first: what is being sent fails.</summary>
    public ValueTask DisposeAsync() => throw new NotSupportedException();

    /// <summary>Why it cannot send now, or null when it can; asks the server to find out.</summary>
    internal Task<string?> FindFaultAsync(CancellationToken cancellationToken) => throw new NotSupportedException();
}
