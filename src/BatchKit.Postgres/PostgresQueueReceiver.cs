using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Ordered;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Claims the messages of a queue in batches, passes them to a handler, and settles batches in the round trip that claims the next ones.</summary>
/// <remarks>
/// Any number of receivers, in any number of processes, may share a queue. A receiver reconnects automatically. It finds work by LISTEN, and by polling in case a notification is lost.
/// <c>AddPostgresQueueReceiver</c> registers it as a hosted service; without a host, start and stop it yourself. The caller owns the data source.
/// </remarks>
public sealed class PostgresQueueReceiver : IHostedService, IBlockingDisposable
{
    // Enough for a responsive server to store the messages that are given back.
    private static readonly TimeSpan ClosingTime = TimeSpan.FromSeconds(2);

    private readonly NpgsqlDataSource _dataSource;
    private readonly PostgresQueueReceiverOptions _options;
    private readonly IMessageHandler<QueueMessage> _handler;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly Tables _tables;
    private readonly ReceiverCounters _counters = new();
    private readonly ConnectionReporter _reporter;
    private readonly ReceiverHealth _health;
    private readonly Intake _intake;
    private readonly QueueMetrics _metrics;
    private readonly QueueDepthReader _depth;
    private readonly DeadReport _dead;
    private readonly StopPhases _stop = new();
    private readonly TaskCompletionSource _triedOnce = new(TaskCreationOptions.RunContinuationsAsynchronously);

    private Task _running = Task.CompletedTask;
    private volatile ReceiverParts? _parts;
    private bool _isStarted;
    private bool _isDisposed;
    private bool _isGivenUp;

    /// <summary>Creates a receiver; it does not connect yet.</summary>
    /// <param name="dataSource">The database. The caller disposes it, after the receiver. Its pool needs 2 connections for a receiver, 1 with <see cref="PostgresQueueReceiverOptions.Prefetch"/>, <see cref="PostgresQueueReceiverOptions.Concurrency"/> for one of an ordered queue, and 2 more, which all its receivers share.</param>
    /// <param name="options">The settings.</param>
    /// <param name="handler">Handles the messages. The caller disposes it.</param>
    /// <param name="timeProvider">The clock; the system's when null. Claims and delays use the server's clock.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="metrics">The instruments of its connections; null for none.</param>
    /// <param name="meterFactory">Creates the meter of the queue's instruments; null for none.</param>
    /// <exception cref="ArgumentException">The data source multiplexes.</exception>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public PostgresQueueReceiver(
        NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, IMessageHandler<QueueMessage> handler, TimeProvider? timeProvider = null, ILogger<PostgresQueueReceiver>? logger = null,
        ConnectionMetrics? metrics = null, IMeterFactory? meterFactory = null)
        : this(dataSource, options, handler, timeProvider, (ILogger?)logger, metrics, meterFactory)
    {
    }

    internal PostgresQueueReceiver(
        NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, IMessageHandler<QueueMessage> handler, TimeProvider? timeProvider, ILogger? logger, ConnectionMetrics? metrics,
        IMeterFactory? meterFactory)
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(handler);
        SessionCheck.ThrowIfUnfit(dataSource);
        _options = options = options.Copy();
        OptionsRules.ThrowIfInvalid(new PostgresQueueReceiverOptionsValidator(), options);
        _dataSource = dataSource;
        _handler = handler;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        _tables = new Tables(options.Schema);
        _reporter = new ConnectionReporter(options.ConnectionChanged, "receiver", Detached.Describe(dataSource), metrics, "postgresql", options.Queue);
        _intake = new Intake(options);
        _depth = new QueueDepthReader(options.Schema, options, _timeProvider);
        _health = new ReceiverHealth(dataSource, options, _logger, _reporter);
        _dead = new DeadReport(options.Queue, _timeProvider, _logger);
        _metrics = new QueueMetrics(this, options.Queue, meterFactory, _logger.Faults);
    }

    /// <summary>Why it receives nothing now, in a human-readable sentence without secrets; null while it receives.</summary>
    public string? Fault => _health.Fault ?? _intake.Fault;

    /// <summary>What is degraded while the receiver still receives, in a sentence; null when nothing is.</summary>
    internal string? Degradation => _parts?.SlowHandlers ?? _parts?.Connections.Listener.Fault ?? _dead.Degradation ?? _logger.Faults.Description ?? _reporter.CallbackFault;

    /// <summary>How much waits in the queue; null when it was not read.</summary>
    internal QueueDepth? Depth => _depth.Last;

    /// <summary>Counts what it has claimed and settled. Call it at any time, from any thread.</summary>
    public PostgresQueueReceiverStatistics GetStatistics() => _counters.Read(_intake.AbandonedHandlers);

    /// <summary>Starts to receive. Completes after the first attempt to reach the queue, even if that failed; the receiver then keeps trying. A second call starts nothing more.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    /// <exception cref="IOException">The queue can't be used, and <see cref="PostgresQueueReceiverOptions.FailFast"/> is set.</exception>
    /// <exception cref="ObjectDisposedException">The receiver was disposed.</exception>
    public async Task StartAsync(CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        if (!Interlocked.Exchange(ref _isStarted, true))
            _running = CallerContext.RunWithout(RunAsync);
        await _triedOnce.Task.WaitAsync(cancellationToken).ConfigureAwait(false);
        if (_options.FailFast && Fault is { } fault)
            throw new IOException(fault);
    }

    /// <summary>True from <see cref="PauseAsync"/> until <see cref="Resume"/>.</summary>
    public bool IsPaused => _intake.IsPaused;

    /// <summary>Claims nothing more until <see cref="Resume"/>, also after a reconnect. The health check stays healthy, and reports the pause. Other receivers of the queue go on.</summary>
    /// <remarks>Handlers that run finish, and their messages are settled; prefetched messages are given back. It may be called at any time, from any thread, also before the start.</remarks>
    /// <param name="cancellationToken">Ends the wait, not the pause.</param>
    /// <returns>A task that completes when nothing is in hand, or it is resumed. Handlers that were given up at <see cref="PostgresQueueReceiverOptions.HandlerTimeLimit"/> are not waited for.</returns>
    public Task PauseAsync(CancellationToken cancellationToken = default)
    {
        var (isFirst, emptied) = _intake.Pause();
        if (isFirst)
            Log.Paused(_logger, _options.Queue);
        return emptied.WaitAsync(cancellationToken);
    }

    /// <summary>Claims again after <see cref="PauseAsync"/>; does nothing when it is not paused.</summary>
    public void Resume()
    {
        if (!_intake.Resume())
            return;
        Log.Resumed(_logger, _options.Queue);
        // Messages that came meanwhile have sent their notifications.
        _parts?.Signal.Wake();
    }

    /// <summary>Stops claiming, waits for handlers within <see cref="PostgresQueueReceiverOptions.StopTimeout"/>, and gives back what they have not handled.</summary>
    /// <param name="cancellationToken">Cancels the handlers at once.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_isDisposed || _isGivenUp)
            return;
        await EnterAsync(static phases => phases.StopAsync()).ConfigureAwait(false);
        if (await EndsAsync(_options.StopTimeout, cancellationToken).ConfigureAwait(false))
            return;
        await EnterAsync(static phases => phases.AbandonAsync()).ConfigureAwait(false);
        _parts?.Held.Cancel();
        if (!await EndsAsync(ClosingTime, CancellationToken.None).ConfigureAwait(false))
            await EnterAsync(static phases => phases.CloseAsync()).ConfigureAwait(false);
        // A handler that blocks its thread can't be given up, but must not keep the process alive.
        _isGivenUp = !await EndsAsync(ClosingTime, CancellationToken.None).ConfigureAwait(false);
        if (_isGivenUp)
            Log.StopGivenUp(_logger, _options.Queue);
    }

    /// <summary>Stops the receiver, if it runs.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        if (!_isGivenUp)
            _stop.Dispose();
    }

    private async Task RunAsync()
    {
        var finder = new QueueFinder(_dataSource, _tables, _options, _health, _timeProvider, _logger);
        var schedule = new RetrySchedule(_options.ReconnectDelay, _options.MaxReconnectDelay);
        var losses = 0;
        while (await finder.FindAsync(() => _triedOnce.TrySetResult(), _stop.Stopping).ConfigureAwait(false) is { } queue)
        {
            var began = _timeProvider.GetTimestamp();
            try
            {
                await ReceiveAsync(queue).ConfigureAwait(false);
            }
            catch (Exception exception)
            {
                _health.Failed(this, exception);
            }

            // The session ended before the receiver stopped: the queue's tables were dropped or re-created, and its number may be another queue's.
            losses = _timeProvider.GetElapsedTime(began) < _options.MaxReconnectDelay ? losses + 1 : 1;
            await Task.Delay(schedule.DelayAfter(losses, Random.Shared), _timeProvider, _stop.Stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }

        _depth.Clear();
        _health.Stopped("The receiver has stopped.");
        _triedOnce.TrySetResult();
    }

    private async Task ReceiveAsync(QueueEntry queue)
    {
        var worker = ErrorText.Ascii($"{Environment.MachineName}:{Environment.ProcessId}");
        IClaimStore store = queue.Shards == 0 ? new ClaimStore(_tables, queue, _options, worker, _timeProvider) : new ShardStore(_tables, queue, _options, worker, _logger);
        var parts = _parts = new ReceiverParts(_dataSource, _options, store, _counters, _health, _intake, _stop, _timeProvider, _logger)
        {
            Metrics = _metrics,
            Depth = _depth,
            Dead = _dead,
            IsOutbox = _handler is OutboxHandler,
        };
        await using (parts.ConfigureAwait(false))
        {
            _health.Started();
            Log.Receiving(_logger, _options.Queue, _options.Concurrency);
            WarnOfSmallPool();
            _triedOnce.TrySetResult();
            await new ReceiverSession(parts, _handler, queue).RunAsync().ConfigureAwait(false);
        }
    }

    private void WarnOfSmallPool()
    {
        var poolSize = new NpgsqlConnectionStringBuilder(_dataSource.ConnectionString).MaxPoolSize;
        if (poolSize < PoolNeeds.SizeFor(_options))
            Log.PoolTooSmall(_logger, _options.Queue, poolSize, PoolNeeds.SizeFor(_options));
    }

    // The session's phases are linked to the receiver's, but a linked phase follows on another thread. A handler that ends now must already see the stop.
    private Task EnterAsync(Func<StopPhases, Task> phase) => Task.WhenAll(phase(_stop), _parts is { } parts ? phase(parts.Stop) : Task.CompletedTask);

    private async Task<bool> EndsAsync(TimeSpan limit, CancellationToken cancellationToken)
    {
        await _running.WaitAsync(limit, _timeProvider, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return _running.IsCompleted;
    }
}

/// <summary>Counts of what a receiver has claimed and settled since it was created.</summary>
public sealed class PostgresQueueReceiverStatistics
{
    /// <summary>Claimed batches.</summary>
    public long ClaimedBatches { get; init; }

    /// <summary>Claimed messages. A message that is claimed again counts again.</summary>
    public long ClaimedMessages { get; init; }

    /// <summary>Messages that were handled and deleted.</summary>
    public long CompletedMessages { get; init; }

    /// <summary>Messages that failed and wait for another attempt.</summary>
    public long RetriedMessages { get; init; }

    /// <summary>Messages that this receiver moved to the dead table.</summary>
    public long BuriedMessages { get; init; }

    /// <summary>Messages that were given back unhandled, for example at a stop.</summary>
    public long ReleasedMessages { get; init; }

    /// <summary>Messages whose outcome the server refused because their claim had ended; another worker handles them.</summary>
    public long LostMessages { get; init; }

    /// <summary>Messages that were kept from the handler because their header could not be read. Those of a newer version are left for a process that can read them; malformed ones are moved to the dead table. A message that is claimed again counts again.</summary>
    public long UnreadableMessages { get; init; }

    /// <summary>Batches whose handler was cancelled because it ran longer than <see cref="PostgresQueueReceiverOptions.HandlerTimeLimit"/>.</summary>
    public long TimedOutBatches { get; init; }

    /// <summary>Handlers that were given up because they ignored that, and still run. While there are as many as <see cref="PostgresQueueReceiverOptions.Concurrency"/>, at least 10, nothing is claimed.</summary>
    public int AbandonedHandlers { get; init; }

    /// <summary>Messages that are being handled now.</summary>
    public int HandlingMessages { get; init; }

    /// <summary>Messages that were prefetched and wait for a handler; see <see cref="PostgresQueueReceiverOptions.Prefetch"/>.</summary>
    public int PrefetchedMessages { get; init; }

    /// <summary>How many consecutive batches have failed.</summary>
    public int ConsecutiveFailures { get; init; }
}
