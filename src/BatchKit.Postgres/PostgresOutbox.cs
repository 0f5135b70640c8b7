using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Stores output in PostgreSQL and then forwards it to another transport, so that no acknowledged output is lost when the process is killed or the broker is down.</summary>
/// <remarks>
/// A send or an enqueue is stored as one or more rows, each a frame. A frame keeps its producer and numbers each time it is forwarded, so the final receiver drops repeats. One of the processes
/// that share the outbox forwards rows in order, and deletes acknowledged ones; for that, start and stop the outbox as a hosted service. Rows that the inner transport refuses, as a whole or in
/// part, are moved to the dead table, and deleted after 14 days. A row with which it fails again and again waits alone, with those behind it of its handles and producer; after 2 minutes it is moved there too, if the transport
/// has accepted others meanwhile. The caller owns the data source and the inner transport. Send and enqueue from any thread.
/// </remarks>
public sealed class PostgresOutbox : IBatchTransport, IHostedService, IBlockingDisposable
{
    private readonly NpgsqlDataSource _dataSource;
    private readonly PostgresOutboxOptions _options;
    private readonly PostgresQueueTransport _store;
    private readonly OutboxInsert _insert;
    private readonly OutboxHandler _handler;
    private readonly PostgresQueueReceiver _receiver;
    private readonly CancellationTokenSource _stopping = new();
    private volatile bool _isDisposed;

    /// <summary>Creates an outbox; it does not connect yet.</summary>
    /// <param name="dataSource">The database. The caller disposes it, after the outbox. Its pool needs 3 connections, and one more for each concurrent send and enqueue.</param>
    /// <param name="inner">The transport to forward to. The caller disposes it, after the outbox. It gets one send at a time, unless one does not end when it is cancelled, with batches of several producers; each producer's numbers rise.</param>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="metrics">The instruments of its connections; null for none.</param>
    /// <param name="meterFactory">Creates the meter of its queue's instruments; null for none.</param>
    /// <exception cref="ArgumentException">The data source multiplexes.</exception>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public PostgresOutbox(
        NpgsqlDataSource dataSource, IBatchTransport inner, PostgresOutboxOptions? options = null, TimeProvider? timeProvider = null, ILogger<PostgresOutbox>? logger = null,
        ConnectionMetrics? metrics = null, IMeterFactory? meterFactory = null)
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        ArgumentNullException.ThrowIfNull(inner);
        options = options?.Copy() ?? new PostgresOutboxOptions();
        OptionsRules.ThrowIfInvalid(new PostgresOutboxOptionsValidator(), options);
        timeProvider ??= TimeProvider.System;
        _dataSource = dataSource;
        _options = options;
        var guarded = GuardedLogger.Of(logger);
        _store = new PostgresQueueTransport(dataSource, StoreOptions(options), timeProvider, guarded, signer: null, metrics: null);
        _insert = new OutboxInsert(new Tables(options.Schema), options.CommandTimeout);
        _handler = new OutboxHandler(inner, options, timeProvider, guarded, _stopping.Token);
        _receiver = new PostgresQueueReceiver(dataSource, ReceiverOptions(options), _handler, timeProvider, guarded, metrics, meterFactory);
        MaxMessageBytes = Math.Min(inner.MaxMessageBytes, _store.MaxMessageBytes);
        MaxBatchBytes = Math.Min(inner.MaxBatchBytes, _store.MaxBatchBytes);
        LimitingSetting = inner.MaxBatchBytes < _store.MaxBatchBytes ? inner.LimitingSetting : _store.LimitingSetting;
    }

    /// <inheritdoc/>
    public int MaxMessageBytes { get; }

    /// <inheritdoc/>
    public int MaxBatchBytes { get; }

    /// <inheritdoc/>
    public string? LimitingSetting { get; }

    /// <summary>Why it does not forward now, in a human-readable sentence without secrets; null while it does.</summary>
    public string? Fault => _receiver.Fault ?? _handler.Fault;

    /// <summary>What is degraded while the outbox still forwards, in a sentence; null when nothing is.</summary>
    internal string? Degradation => _handler.Degradation ?? _receiver.Degradation ?? _store.Degradation;

    /// <summary>Stores the batches, and completes when they are committed.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The server can't be reached, or did not commit; the cause is the inner exception.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => _store.SendAsync(batches, cancellationToken);

    /// <summary>Stores messages for a handle in the caller's transaction: they are forwarded when it commits, and never when it rolls back.</summary>
    /// <remarks>
    /// <para>
    /// Each call is a producer of its own, because transactions may commit in another order than they were numbered. The messages of one call keep their order. If one call was committed before another began,
    /// these calls keep their order too. Calls in overlapping transactions are forwarded in the order in which they stored their messages, not in the order of their commits. A call whose commit comes after later
    /// calls were forwarded follows them.
    /// </para>
    /// <para>
    /// The caller's commit sends no notification, because a NOTIFY inside a transaction makes all commits of the server wait for one another. The messages are forwarded after the next send, the next enqueue
    /// without a transaction, or <see cref="PostgresOutboxOptions.PollInterval"/>. The first call uses a second connection, to find the tables.
    /// </para>
    /// </remarks>
    /// <param name="handle">Their destination.</param>
    /// <param name="messages">At least one. Their bytes are copied.</param>
    /// <param name="transaction">The caller's open transaction, on the same database. Null, the default, stores them in a separate transaction, which does not join an ambient one (<c>TransactionScope</c>).</param>
    /// <param name="cancellationToken">Cancels the call. Roll back the transaction then.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>, there are no messages, or one is larger, with its header, than <see cref="MaxMessageBytes"/>.</exception>
    /// <exception cref="InvalidOperationException">The transaction has ended, the schema is missing or of another version, or the outbox's name belongs to another kind of queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    /// <exception cref="ObjectDisposedException">The outbox was disposed.</exception>
    public async Task EnqueueAsync(OutputHandle handle, BatchMessage[] messages, NpgsqlTransaction? transaction = null, CancellationToken cancellationToken = default)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        ArgumentNullException.ThrowIfNull(messages);
        ThrowIfUnfit(handle, messages);
        var frames = EnqueuedFrames.Create(handle, messages, MaxMessageBytes);
        var queue = await FindQueueAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            if (await StoreAsync(queue, isFresh: false, frames, transaction, cancellationToken).ConfigureAwait(false))
                return;
        }
        catch (Exception exception) when (ServerFault.LosesQueue(exception))
        {
            _store.ForgetQueues();
            // The server refuses all further statements of the caller's transaction.
            if (transaction is not null)
                throw;
        }

        // The queue's tables were re-created since its number was read, or the caller's transaction does not see the queue yet.
        _store.ForgetQueues();
        queue = await FindQueueAsync(cancellationToken).ConfigureAwait(false);
        await StoreAsync(queue, isFresh: true, frames, transaction, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Starts to forward stored output. Completes after the first attempt to reach the database, even if that failed; the outbox then keeps trying.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    /// <exception cref="IOException">The outbox's queue can't be used, and <see cref="PostgresOutboxOptions.FailFast"/> is set.</exception>
    public Task StartAsync(CancellationToken cancellationToken) => _receiver.StartAsync(cancellationToken);

    /// <summary>Stops forwarding, and waits up to 5 s for the send that is under way. The remaining rows are kept for the next start or for another process.</summary>
    /// <param name="cancellationToken">Cancels the send under way.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_isDisposed)
            return;
        var stop = _receiver.StopAsync(cancellationToken);
        // Ends retries. The receiver must stop first, or it would claim again what the handler gives back.
        await _stopping.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await stop.ConfigureAwait(false);
    }

    /// <summary>Stops the outbox, if it runs. Dispose the buffer first: sends that are under way fail.</summary>
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
        IsOutbox = true,
        CommandTimeout = options.CommandTimeout,
        UsePreparedStatements = options.UsePreparedStatements,
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
        // Each crash counts as an attempt of the rows that were being forwarded. They are never given up because of that.
        Poison = PoisonPolicy.Block,
        MaxAttempts = 1000,
        PollInterval = options.PollInterval,
        ListenConnectionString = options.ListenConnectionString,
        ConnectionChanged = options.ConnectionChanged,
        FailFast = options.FailFast,
        CommandTimeout = options.CommandTimeout,
        UsePreparedStatements = options.UsePreparedStatements,
    };

    private void ThrowIfUnfit(OutputHandle handle, BatchMessage[] messages)
    {
        if (handle.IsNone)
            throw new ArgumentException("The handle is default and has no destination. Use OutputHandle.Connection or OutputHandle.Named.", nameof(handle));
        if (messages.Length == 0)
            throw new ArgumentException("There are no messages. Give at least one.", nameof(messages));
        foreach (var message in messages)
        {
            if (EnqueuedFrames.MeasureAtMost(message) > MaxMessageBytes && EnqueuedFrames.Measure(message) is var bytes && bytes > MaxMessageBytes)
                throw new ArgumentException($"A message has {bytes} bytes with its header, more than {nameof(MaxMessageBytes)} ({MaxMessageBytes}). Split it into several, or raise the limit of the transport behind the outbox.", nameof(messages));
        }
    }

    private async Task<bool> StoreAsync(QueueEntry queue, bool isFresh, byte[][] frames, NpgsqlTransaction? transaction, CancellationToken cancellationToken)
    {
        if (transaction is not null)
        {
            var own = transaction.Connection ?? throw new InvalidOperationException("The transaction has ended. Enqueue before its commit or rollback.");
            return await _insert.RunAsync(own, transaction, queue, isFresh, frames, cancellationToken).ConfigureAwait(false);
        }

        var isStored = await Detached.UseAsync(_dataSource, (connection, token) => StoreAsync(connection, queue, isFresh, frames, token), cancellationToken).ConfigureAwait(false);
        if (isStored)
            _store.Notify(queue);
        return isStored;
    }

    private async Task<bool> StoreAsync(NpgsqlConnection connection, QueueEntry queue, bool isFresh, byte[][] frames, CancellationToken cancellationToken)
    {
        using var guard = new ReplicationGuard(connection);
        var isStored = await _insert.RunAsync(connection, transaction: null, queue, isFresh, frames, cancellationToken).ConfigureAwait(false);
        guard.ThrowIfCut(cancellationToken);
        return isStored;
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
