using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Claims the messages of one queue in batches, has them handled, and settles each batch in the round trip that claims the next.</summary>
/// <remarks>
/// Any number of receivers, in any number of processes, may share a queue. It connects again by itself, and finds work by LISTEN and, as a safety net, by polling.
/// <c>AddPostgresQueueReceiver</c> registers it as a hosted service; without a host start and stop it by hand. The data source stays the caller's.
/// </remarks>
public sealed class PostgresQueueReceiver : IHostedService, IAsyncDisposable
{
    /// <summary>Makes a receiver; it does not connect yet.</summary>
    /// <param name="dataSource">The database; the caller's to dispose, after this. Its pool needs <see cref="PostgresQueueReceiverOptions.Concurrency"/> + 2 connections.</param>
    /// <param name="options">Its settings.</param>
    /// <param name="handler">Handles the messages; the caller's to dispose.</param>
    /// <param name="timeProvider">The time; the system's when null. Claims and delays go by the server's clock.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public PostgresQueueReceiver(
        NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, IQueueHandler handler, TimeProvider? timeProvider = null, ILogger<PostgresQueueReceiver>? logger = null) =>
        throw new NotSupportedException();

    /// <summary>Why it receives nothing now, for a person and without secrets; null while it receives.</summary>
    public string? Fault => throw new NotSupportedException();

    /// <summary>What it has claimed and settled, at any time and from any thread.</summary>
    public PostgresQueueReceiverStatistics GetStatistics() => throw new NotSupportedException();

    /// <summary>Starts to receive. Completes after the first attempt to reach the queue, also when that failed: it goes on trying.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    public Task StartAsync(CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <summary>Claims nothing more, lets handlers finish within <see cref="PostgresQueueReceiverOptions.StopTimeout"/>, and gives back what they have not handled.</summary>
    /// <param name="cancellationToken">Cancels the handlers at once.</param>
    public Task StopAsync(CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <summary>Stops it, if that has not been done.</summary>
    public ValueTask DisposeAsync() => throw new NotSupportedException();
}
