using BatchKit.Diagnostics;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Sends batches to queues in PostgreSQL: a handle's name is a queue, and each message becomes a row.</summary>
/// <remarks>
/// One statement stores all messages of a send, in one transaction, with one notification; only a large send takes several (<see cref="PostgresOptions.MaxStatementBytes"/>). A send whose commit is unknown may be
/// retried: messages are never stored twice. The transport connects at the first send, and does not join an ambient transaction. Thread-safe. Register it with <c>UsePostgres</c>, or create it yourself and dispose it
/// after the buffer. The caller owns the data source.
/// </remarks>
public sealed class PostgresQueueTransport : IBatchTransport, IBlockingDisposable
{
    private readonly NpgsqlDataSource _dataSource;
    private readonly PostgresOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly LogThrottle _throttle;
    private readonly string _target;
    private readonly SchemaGate _gate;
    private readonly QueueDirectory _directory;
    private readonly SendLimits _limits;
    private readonly SendReader _reader;
    private readonly KeptConnections _connections;
    private readonly QueueNotifier _notifier;
    private readonly QueueInsert _insert;
    private readonly ConnectionReporter _reporter;
    private volatile bool _isDisposed;

    /// <summary>Creates a transport; it does not connect yet.</summary>
    /// <param name="dataSource">The database. The caller disposes it, after the transport.</param>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="signer">Signs the frames in <see cref="PostgresOptions.FrameQueue"/>; null for none. Other messages are not signed.</param>
    /// <param name="metrics">The instruments of its connections; null for none.</param>
    /// <exception cref="ArgumentException">The data source multiplexes.</exception>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public PostgresQueueTransport(NpgsqlDataSource dataSource, PostgresOptions? options = null, TimeProvider? timeProvider = null, ILogger<PostgresQueueTransport>? logger = null,
        FrameSigner? signer = null, ConnectionMetrics? metrics = null)
        : this(dataSource, options, timeProvider, (ILogger?)logger, signer, metrics)
    {
    }

    internal PostgresQueueTransport(NpgsqlDataSource dataSource, PostgresOptions? options, TimeProvider? timeProvider, ILogger? logger, FrameSigner? signer, ConnectionMetrics? metrics)
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        SessionCheck.ThrowIfUnfit(dataSource);
        _options = options?.Copy() ?? new PostgresOptions();
        OptionsRules.ThrowIfInvalid(new PostgresOptionsValidator(), _options);
        _dataSource = dataSource;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        _throttle = new LogThrottle(_timeProvider);
        _target = Detached.Describe(dataSource);
        var tables = new Tables(_options.Schema);
        _gate = new SchemaGate(dataSource, _options.Schema, _options.CreateSchema);
        _directory = new QueueDirectory(dataSource, tables);
        _limits = new SendLimits(_options);
        _reader = new SendReader(_options, _limits, _directory, signer);
        _notifier = new QueueNotifier(dataSource, tables, _options.NotifyInterval, _timeProvider, _logger, _options.UsePreparedStatements);
        _connections = new KeptConnections(dataSource, _timeProvider);
        _reporter = new ConnectionReporter(_options.ConnectionChanged, _options.IsOutbox ? "outbox" : "transport", _target, metrics, "postgresql");
        _insert = new QueueInsert(_connections, tables, _notifier, _options);
    }

    /// <summary>False: Npgsql encodes and writes on the caller's thread, which takes about 1 ms for 1000 messages.</summary>
    public bool SendsWithoutBlocking => false;

    /// <summary>The largest message: <see cref="PostgresOptions.MaxStatementBytes"/> less 1 KiB, and with <see cref="PostgresOptions.FrameQueue"/> at most 64 MiB less 1 KiB.</summary>
    public int MaxMessageBytes => MaxBatchBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => _limits.MaxBatchBytes;

    /// <inheritdoc/>
    public string LimitingSetting => $"{nameof(PostgresOptions)}.{nameof(PostgresOptions.MaxStatementBytes)}";

    /// <summary>Inserts the batches' messages, and completes when they are committed.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The server can't be reached, or did not commit; the cause is the inner exception.</exception>
    /// <exception cref="ObjectDisposedException">The transport was disposed.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        var report = new SendReport(batches.Length);
        using var limit = new TimeLimit(_options.CommandTimeout, _timeProvider, cancellationToken);
        try
        {
            await StoreAsync(batches, report, limit).ConfigureAwait(false);
            _reporter.Open();
        }
        catch (Exception exception) when (!cancellationToken.IsCancellationRequested)
        {
            throw report.ToException(_target, Evaluate(exception, limit));
        }

        if (report.HasRefusals)
            throw report.ToException(_target, cause: null);
    }

    /// <summary>Sends the notifications that are due. Dispose the buffer first: sends that are under way fail.</summary>
    public async ValueTask DisposeAsync()
    {
        // A container disposes it once for each of its registrations.
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        _reporter.Close();
        await _gate.DisposeAsync().ConfigureAwait(false);
        await _notifier.DisposeAsync().ConfigureAwait(false);
        await _connections.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>What is degraded while the transport still sends, in a sentence; null when nothing is.</summary>
    internal string? Degradation => _notifier.Fault ?? _logger.Faults.Description ?? _reporter.CallbackFault;

    /// <summary>Asks the server when <see cref="PostgresOptions.FailFast"/> is set, so that the host does not start without it.</summary>
    internal async Task StartAsync(CancellationToken cancellationToken)
    {
        if (_options.FailFast && await FindFaultAsync(cancellationToken).ConfigureAwait(false) is { } fault)
            throw new IOException(fault);
    }

    /// <summary>Returns why the transport can't send now, or null when it can. Asks the server to find out.</summary>
    internal async Task<string?> FindFaultAsync(CancellationToken cancellationToken)
    {
        var limit = new TimeLimit(_options.CommandTimeout, _timeProvider, cancellationToken);
        var end = limit.Token;
        var asking = IsReadOnlyAsync(limit);
        try
        {
            // Not left to Npgsql: it tells the server of the cancellation first, and waits for that when the server accepts and answers nothing.
            var isReadOnly = await asking.WaitAsync(end).ConfigureAwait(false);
            _reporter.Open();
            return isReadOnly ? $"{_target} is read-only: it is a standby, or was configured read-only." : null;
        }
        catch (Exception exception) when (!cancellationToken.IsCancellationRequested)
        {
            _ = asking.ContinueWith(static late => late.Exception, TaskScheduler.Default);
            return $"{_target} can't be used: {ServerFault.Describe(Evaluate(exception, limit))}";
        }
    }

    /// <summary>Finds a queue of frames, and creates it if it does not exist.</summary>
    internal ValueTask<QueueEntry> FindFrameQueueAsync(string name, CancellationToken cancellationToken) =>
        _directory.TryFind(name) is { } known ? ValueTask.FromResult(known) : FindFrameQueueSlowAsync(name, cancellationToken);

    /// <summary>Wakes the receivers of a queue, for an outbox that has stored enqueued messages itself.</summary>
    internal void Notify(QueueEntry queue) => _notifier.Notify(queue);

    /// <summary>Forgets what is remembered of the schema and its queues, so that the next call looks again.</summary>
    internal void ForgetQueues()
    {
        _gate.Close();
        _directory.Clear();
    }

    private async ValueTask<QueueEntry> FindFrameQueueSlowAsync(string name, CancellationToken cancellationToken)
    {
        await _gate.PassAsync(cancellationToken).ConfigureAwait(false);
        return await _directory.FindOrCreateAsync(name, SendReader.FrameShards, cancellationToken).ConfigureAwait(false);
    }

    private async Task StoreAsync(ReadOnlyMemory<MessageBatch> batches, SendReport report, TimeLimit limit)
    {
        var passing = _gate.PassAsync(limit.Token);
        if (!passing.IsCompletedSuccessfully)
        {
            await passing.ConfigureAwait(false);
            // A migration may have taken some of the time.
            limit.Restart(_options.CommandTimeout);
        }

        using var rows = await _reader.ReadAsync(batches, report, limit.Token).ConfigureAwait(false);
        foreach (var run in _limits.Split(batches, report))
            await StoreAsync(batches, rows, run, report, limit).ConfigureAwait(false);
    }

    // A run with a batch that the server can't store is halved, until that batch is alone and refused.
    private async Task StoreAsync(ReadOnlyMemory<MessageBatch> batches, SendRows rows, Range run, SendReport report, TimeLimit limit)
    {
        // Each statement has the full time limit.
        limit.Restart(_options.CommandTimeout);
        try
        {
            using var part = rows.Of(run);
            await _insert.StoreAsync(part, limit.Token).ConfigureAwait(false);
            report.Acknowledge(run);
            return;
        }
        catch (PostgresException exception) when (ServerFault.RefusesContent(exception))
        {
            var (start, length) = run.GetOffsetAndLength(batches.Length);
            if (length == 1)
            {
                report.Refuse(start, SendReader.Refuse(batches.Span[start], exception));
                return;
            }
        }

        var (first, count) = run.GetOffsetAndLength(batches.Length);
        var middle = first + (count / 2);
        await StoreAsync(batches, rows, first..middle, report, limit).ConfigureAwait(false);
        await StoreAsync(batches, rows, middle..(first + count), report, limit).ConfigureAwait(false);
    }

    private async Task<bool> IsReadOnlyAsync(TimeLimit limit)
    {
        using (limit)
        {
            await _gate.PassAsync(limit.Token).ConfigureAwait(false);
            return await IsReadOnlyAsync(limit.Token).ConfigureAwait(false);
        }
    }

    private Task<bool> IsReadOnlyAsync(CancellationToken stopping) => Detached.UseAsync(_dataSource, static async (connection, token) =>
    {
        var command = new NpgsqlCommand("select pg_catalog.current_setting('transaction_read_only')::boolean", connection);
        await using (command.ConfigureAwait(false))
            return await command.ExecuteScalarAsync(token).ConfigureAwait(false) is true;
    }, stopping);

    // Drops connections and remembered queues that the failure has made useless, and returns the cause to report.
    private Exception Evaluate(Exception exception, TimeLimit limit)
    {
        if (limit.IsOver && _gate.IsMigrating)
            return new TimeoutException($"The schema '{_options.Schema}' is being created or migrated, for longer than {_options.CommandTimeout} ({nameof(PostgresOptions.CommandTimeout)}). That goes on, and sends wait for it.", exception);
        if (exception is PostgresException { SqlState: var state } && ServerFault.SpoilsPool(exception))
        {
            Log.ConnectionsDropped(_logger, _throttle, _target, state, ServerFault.Describe(exception));
            _connections.ReleaseIdle();
            Detached.Forget(_dataSource);
        }

        if (ServerFault.IsDisconnected(exception) || limit.IsOver)
            _reporter.Lose(ServerFault.Describe(exception));
        if (ServerFault.LosesQueue(exception))
            ForgetQueues();

        // A statement that is cancelled may end with a connection that is broken.
        return limit.IsOver && exception is OperationCanceledException or (NpgsqlException and not PostgresException)
            ? new TimeoutException($"The server did not answer within {_options.CommandTimeout} ({nameof(PostgresOptions.CommandTimeout)}).", exception)
            : exception;
    }
}
