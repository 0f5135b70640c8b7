using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Stores output in PostgreSQL before another transport sends it: nothing that was acknowledged is lost when the process is killed or the broker is down.</summary>
/// <remarks>
/// A send or an enqueue is a row, with its frame: producer and numbers stay the same however often it is sent on, so that the far receiver drops what comes twice. A dispatcher, in one of the
/// processes that share the outbox, sends rows on in order and deletes what is acknowledged; start and stop it as a hosted service. What the inner transport refuses for good is put into the dead
/// table. The data source and the inner transport stay the caller's. Sends and enqueues come from any thread.
/// </remarks>
public sealed class PostgresOutbox : IBatchTransport, IHostedService, IAsyncDisposable
{
    private readonly NpgsqlDataSource _dataSource;
    private readonly PostgresOutboxOptions _options;
    private readonly PostgresQueueTransport _store;
    private readonly OutboxInsert _insert;
    private readonly OutboxHandler _handler;
    private readonly PostgresQueueReceiver _receiver;
    private readonly CancellationTokenSource _stopping = new();
    private bool _isDisposed;

    /// <summary>Makes an outbox; it does not connect yet.</summary>
    /// <param name="dataSource">The database; the caller's to dispose, after this. Its pool needs 3 connections more than sends and enqueues take.</param>
    /// <param name="inner">The transport that sends on; the caller's to dispose, after this. One send at a time, with batches of several producers, whose numbers rise for each.</param>
    /// <param name="options">Its settings; the defaults when null.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public PostgresOutbox(
        NpgsqlDataSource dataSource, IBatchTransport inner, PostgresOutboxOptions? options = null, TimeProvider? timeProvider = null, ILogger<PostgresOutbox>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        ArgumentNullException.ThrowIfNull(inner);
        options ??= new PostgresOutboxOptions();
        PostgresOutboxOptionsValidator.ThrowIfInvalid(options);
        timeProvider ??= TimeProvider.System;
        _dataSource = dataSource;
        _options = options;
        _store = new PostgresQueueTransport(dataSource, StoreOptions(options), timeProvider);
        _insert = new OutboxInsert(new Tables(options.Schema), options.CommandTimeout);
        _handler = new OutboxHandler(inner, options, timeProvider, logger ?? NullLogger<PostgresOutbox>.Instance, _stopping.Token);
        _receiver = new PostgresQueueReceiver(dataSource, ReceiverOptions(options), _handler, timeProvider);
        MaxMessageBytes = Math.Min(inner.MaxMessageBytes, _store.MaxMessageBytes);
    }

    /// <inheritdoc/>
    public int MaxMessageBytes { get; }

    /// <summary>Why it does not send on now, for a person and without secrets; null while it does.</summary>
    public string? Fault => _receiver.Fault ?? _handler.Fault;

    /// <summary>Stores the batches, and completes when they are committed.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The server can't be reached, or did not commit; the cause is the inner exception.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => _store.SendAsync(batches, cancellationToken);

    /// <summary>Stores messages for a handle, in a transaction of the caller's: they leave when it commits, and never when it rolls back.</summary>
    /// <remarks>
    /// <para>
    /// Each call is a producer of its own, because transactions do not commit in the order in which they were numbered; messages of one call, and of calls that committed one behind the other, keep their
    /// order.
    /// </para>
    /// <para>
    /// Nobody is told of the caller's commit, because a NOTIFY inside a transaction makes all commits of the server wait for one another: what it stored leaves with what is enqueued or sent next, or
    /// after <see cref="PostgresOutboxOptions.PollInterval"/>. The first call of an outbox that was not started takes a second connection, to find the tables.
    /// </para>
    /// </remarks>
    /// <param name="handle">Where they go.</param>
    /// <param name="messages">At least one; their bytes are copied.</param>
    /// <param name="transaction">The caller's open transaction, on the same database; null, the default, commits by itself.</param>
    /// <param name="cancellationToken">Ends it. The transaction is the caller's to roll back.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>, there are no messages, or one is larger than <see cref="MaxMessageBytes"/>.</exception>
    /// <exception cref="InvalidOperationException">The transaction has ended, the schema is missing or of another version, or the outbox's name is that of a queue for other things.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task EnqueueAsync(OutputHandle handle, BatchMessage[] messages, NpgsqlTransaction? transaction = null, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(messages);
        ThrowIfUnfit(handle, messages);
        var frames = EnqueuedFrames.Make(handle, messages, _options.Node, MaxMessageBytes);
        var queue = await FindQueueAsync(cancellationToken).ConfigureAwait(false);
        if (transaction is not null)
        {
            var own = transaction.Connection ?? throw new InvalidOperationException("The transaction has ended.");
            await _insert.RunAsync(own, transaction, queue, frames, cancellationToken).ConfigureAwait(false);
            return;
        }

        var connection = await _dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
        await using (connection.ConfigureAwait(false))
            await _insert.RunAsync(connection, transaction: null, queue, frames, cancellationToken).ConfigureAwait(false);
        _store.Notify(queue);
    }

    /// <summary>Starts to send on what is stored. Completes after the first attempt to reach the database, also when that failed: it goes on trying.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    public Task StartAsync(CancellationToken cancellationToken) => _receiver.StartAsync(cancellationToken);

    /// <summary>Stops sending on, once the send under way has ended, for which it waits 5 s at most. What is stored stays for the next start, or another process.</summary>
    /// <param name="cancellationToken">Cancels the send under way.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_isDisposed)
            return;
        var stop = _receiver.StopAsync(cancellationToken);
        // Nothing is tried again then; not before the receiver knows, or it would claim again what is given back.
        await _stopping.CancelAsync().ConfigureAwait(false);
        await stop.ConfigureAwait(false);
    }

    /// <summary>Stops it, if that has not been done. Dispose the buffer first: what is being stored fails.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        await _receiver.DisposeAsync().ConfigureAwait(false);
        await _store.DisposeAsync().ConfigureAwait(false);
        _stopping.Dispose();
    }

    private static PostgresOptions StoreOptions(PostgresOutboxOptions options) => new()
    {
        Schema = options.Schema,
        CreateSchema = options.CreateSchema,
        FrameQueue = options.Name,
        CommandTimeout = options.CommandTimeout,
    };

    private static PostgresQueueReceiverOptions ReceiverOptions(PostgresOutboxOptions options) => new()
    {
        Schema = options.Schema,
        CreateSchema = options.CreateSchema,
        Queue = options.Name,
        Shards = SendReader.FrameShards,
        Concurrency = 1,
        BatchSize = options.BatchSize,
        ClaimTimeLimit = options.ClaimTimeLimit,
        // What was in hand at a crash has an attempt behind it; however often that happens, it is not given up.
        Poison = PoisonPolicy.Block,
        MaxAttempts = 1000,
        PollInterval = options.PollInterval,
        ListenConnectionString = options.ListenConnectionString,
        CommandTimeout = options.CommandTimeout,
    };

    private void ThrowIfUnfit(OutputHandle handle, BatchMessage[] messages)
    {
        if (handle.IsNone)
            throw new ArgumentException("The handle is default, so that it names nobody.", nameof(handle));
        if (messages.Length == 0)
            throw new ArgumentException("There are no messages.", nameof(messages));
        foreach (var message in messages)
        {
            if (message.Payload.Length > MaxMessageBytes)
                throw new ArgumentException($"A message has {message.Payload.Length} bytes, more than {nameof(MaxMessageBytes)} ({MaxMessageBytes}).", nameof(messages));
        }
    }

    private async ValueTask<QueueEntry> FindQueueAsync(CancellationToken cancellationToken)
    {
        var queue = await _store.FindFrameQueueAsync(_options.Name, cancellationToken).ConfigureAwait(false);
        return queue.Shards == SendReader.FrameShards
            ? queue
            : throw new InvalidOperationException(
                $"The queue '{_options.Name}' has {queue.Shards} shards, so it is not an outbox, which has {SendReader.FrameShards}: give the outbox another name.");
    }
}
