using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Stores output in PostgreSQL before another transport sends it: nothing that was acknowledged is lost when the process is killed or the broker is down.</summary>
/// <remarks>
/// A send or an enqueue is a row, with its frame: producer and numbers stay the same however often it is sent on, so that the far receiver drops what comes twice. A dispatcher, in one of the
/// processes that share the outbox, sends rows on in order and deletes what is acknowledged; start and stop it as a hosted service. The data source and the inner transport stay the caller's.
/// </remarks>
public sealed class PostgresOutbox : IBatchTransport, IHostedService, IAsyncDisposable
{
    /// <summary>Makes an outbox; it does not connect yet.</summary>
    /// <param name="dataSource">The database; the caller's to dispose, after this.</param>
    /// <param name="inner">The transport that sends on; the caller's to dispose, after this.</param>
    /// <param name="options">Its settings; the defaults when null.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public PostgresOutbox(
        NpgsqlDataSource dataSource, IBatchTransport inner, PostgresOutboxOptions? options = null, TimeProvider? timeProvider = null, ILogger<PostgresOutbox>? logger = null) =>
        throw new NotSupportedException();

    /// <inheritdoc/>
    public int MaxMessageBytes => throw new NotSupportedException();

    /// <summary>Why it does not send on now, for a person and without secrets; null while it does.</summary>
    public string? Fault => throw new NotSupportedException();

    /// <summary>Stores the batches, and completes when they are committed.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The server can't be reached, or did not commit; the cause is the inner exception.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <summary>Stores messages for a handle, in a transaction of the caller's: they leave when it commits, and never when it rolls back.</summary>
    /// <remarks>
    /// Each call is a producer of its own, because transactions do not commit in the order in which they were numbered; messages of one call, and of calls that committed one behind the other, keep their
    /// order.
    /// </remarks>
    /// <param name="handle">Where they go.</param>
    /// <param name="messages">At least one.</param>
    /// <param name="transaction">The caller's open transaction, on the same database; null, the default, commits by itself.</param>
    /// <param name="cancellationToken">Ends it. The transaction is the caller's to roll back.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>, or there are no messages.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public Task EnqueueAsync(OutputHandle handle, BatchMessage[] messages, NpgsqlTransaction? transaction = null, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <summary>Starts to send on what is stored. Completes after the first attempt to reach the database, also when that failed: it goes on trying.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    public Task StartAsync(CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <summary>Stops sending on. What is stored stays for the next start, or another process.</summary>
    /// <param name="cancellationToken">Cancels the send under way.</param>
    public Task StopAsync(CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <summary>Stops it, if that has not been done.</summary>
    public ValueTask DisposeAsync() => throw new NotSupportedException();
}
