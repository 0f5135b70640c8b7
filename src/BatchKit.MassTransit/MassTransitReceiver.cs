using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;

namespace BatchKit.MassTransit;

/// <summary>Receives a node's frames from a MassTransit bus, and passes their batches to the next transport, each once and in order.</summary>
/// <remarks>
/// It connects a receive endpoint <c>{prefix}.node.{node}</c> to the bus, with a concurrency of one and the serializer of frames. It does not change other endpoints
/// of the bus. It acknowledges a frame when the next transport has its batches. <c>ReceiveFromMassTransit</c> registers it; without a host, start and stop it
/// yourself. Thread-safe.
/// </remarks>
public sealed class MassTransitReceiver : IHostedService, IBlockingDisposable
{
    private static readonly TimeSpan ReleaseLimit = TimeSpan.FromMilliseconds(500);

    // How long the endpoint may take to end once its frame is abandoned.
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(2);

    private readonly BusConnection _connection;
    private readonly NodeNumber _node;

    // Null unless the bus is on RabbitMQ.
    private readonly RabbitMqNodeLease? _lease;

    // Holds the lease until the bus has connected.
    private IConnection? _leaseConnection;

    private readonly BatchReceiver _receiver;
    private readonly TimeProvider _timeProvider;
    private readonly ReceiverLog _log;
    private readonly CancellationTokenSource _stopping = new();
    private readonly EnvelopeConsumer _consumer;
    private readonly EndpointWatch _watch;
    private readonly NodeEndpoint _endpoint;
    private readonly Lock _gate = new();

    // Guarded by the gate.
    private bool _isStarted;
    private Task? _stopped;
    private bool _isDisposed;

    /// <summary>Creates a receiver on a bus that the caller configures, starts and stops. It does not connect yet.</summary>
    /// <param name="bus">The bus.</param>
    /// <param name="node">The node whose frames it receives, from 0 to <see cref="OutputHandle.MaxNode"/>. A node's queue has one active receiver at a time.</param>
    /// <param name="receiver">Decodes frames, drops repeats and passes batches on. Nothing else may use it.</param>
    /// <param name="options">The settings, read now; the defaults when null. Those of the connection and <see cref="MassTransitOptions.Bus"/> are not used.</param>
    /// <param name="timeProvider">The clock; the system's by default.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="metrics">The instruments of the bus's connection; null for none.</param>
    /// <exception cref="ArgumentOutOfRangeException">The node is outside its range.</exception>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MassTransitReceiver(IBus bus, int node, BatchReceiver receiver, MassTransitOptions? options = null, TimeProvider? timeProvider = null,
        ILogger<MassTransitReceiver>? logger = null, ConnectionMetrics? metrics = null)
        : this(BusConnection.To(bus, options, timeProvider, metrics), new NodeNumber(node), receiver, timeProvider, logger)
    {
    }

    internal MassTransitReceiver(BusConnection connection, NodeNumber node, BatchReceiver receiver, TimeProvider? timeProvider, ILogger<MassTransitReceiver>? logger)
    {
        ArgumentNullException.ThrowIfNull(receiver);
        _connection = connection;
        _node = node;
        receiver.ReadFor(node);
        _timeProvider = timeProvider ?? TimeProvider.System;
        _log = new ReceiverLog(GuardedLogger.Of(logger), _timeProvider);
        _receiver = receiver;
        _lease = connection.Topology is RabbitMqTopology
            ? new RabbitMqNodeLease(connection.Options.Prefix, node, connection.Options.UseQuorumQueues, _timeProvider)
            : null;
        _watch = new EndpointWatch(() => Queue, connection, connection.CreateReporter("receiver"), _timeProvider, _log);
        _consumer = new EnvelopeConsumer(receiver, connection, _watch, () => Queue, _log, _stopping.Token);
        connection.Link?.Report(_watch.Lose);
        _endpoint = new NodeEndpoint(connection, _watch, () => Queue, Configure, _timeProvider);
    }

    /// <summary>The queue that it receives from.</summary>
    public string Queue => _connection.Topology.GetQueueName(_node.Candidate);

    /// <summary>Why it receives nothing now, in a human-readable sentence without secrets; null while it receives.</summary>
    public string? Fault => _watch.Fault;

    /// <summary>What the logger has thrown, in a sentence; null when it has thrown nothing.</summary>
    internal string? LoggerFault => _log.Logger.Faults.Description;

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    internal string? CallbackFault => _watch.CallbackFault;

    /// <summary>Counts what it has received, delivered and dropped since it was created. Call it at any time, from any thread.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();

    /// <summary>Connects to the bus and returns, even while the broker is down or the application's bus has not started. <see cref="WaitUntilReadyAsync"/> completes when the receiver receives.</summary>
    /// <exception cref="ObjectDisposedException">The receiver was disposed.</exception>
    public Task StartAsync(CancellationToken cancellationToken) => CallerContext.RunWithout(() =>
    {
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            if (_isStarted || _stopped is not null)
                return Task.CompletedTask;
            _endpoint.Start();
            _isStarted = true;
            _connection.Attach(_node.Value);
        }

        return Task.CompletedTask;
    });

    /// <summary>Leases the node's number over a separate connection, before anything reads it. Does nothing for the application's bus, and while the broker can't be reached.</summary>
    /// <exception cref="NodeTakenException">Another process has the number.</exception>
    internal async Task LeaseAsync(CancellationToken cancellationToken)
    {
        if (_lease is null || _connection.Options.RabbitMq is not { } rabbit)
            return;
        using var limit = new CancellationTokenSource(rabbit.ConnectTimeout, _timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(limit.Token, cancellationToken);
        try
        {
            _leaseConnection = await CallerContext.RunWithout(() => RabbitMqBus.ConnectAsync(rabbit, $"BatchKit {_connection.Options.Prefix} lease", either.Token)).ConfigureAwait(false);
            // A cancelled start waits too: a connection that is closed between the declaration and its consumer leaves a number that no one has and no one can take.
            await _lease.WaitAsync(_lease.TakeAsync(_leaseConnection, cancellationToken), rabbit.ConnectTimeout, CancellationToken.None).ConfigureAwait(false);
        }
        catch (NodeTakenException)
        {
            await CloseLeaseConnectionAsync().ConfigureAwait(false);
            throw;
        }
        catch (Exception) when (!cancellationToken.IsCancellationRequested)
        {
            // The bus reports what is wrong, and takes the lease when it has connected.
            await CloseLeaseConnectionAsync().ConfigureAwait(false);
        }
    }

    /// <summary>Completes when the receiver is ready to receive for the first time since its start.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="InvalidOperationException">The receiver was not started.</exception>
    public Task WaitUntilReadyAsync(CancellationToken cancellationToken = default)
    {
        lock (_gate)
        {
            return _isStarted ? _watch.FirstReady.WaitAsync(cancellationToken) : throw new InvalidOperationException("The receiver was not started.");
        }
    }

    /// <summary>Stops receiving, and waits for the current frame, at most for <see cref="MassTransitOptions.StopTimeout"/> or until the token is cancelled. The receiver can't be started again.</summary>
    /// <param name="cancellationToken">Abandons the current frame.</param>
    public Task StopAsync(CancellationToken cancellationToken)
    {
        lock (_gate)
            return _stopped ??= _isStarted ? StopEndpointAsync(cancellationToken) : Task.CompletedTask;
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        lock (_gate)
            _isDisposed = true;
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        await CloseLeaseConnectionAsync().ConfigureAwait(false);
        _endpoint.Dispose();
        _consumer.Dispose();
        _stopping.Dispose();
    }

    private async Task TakeLeaseAsync(IConnection connection)
    {
        if (_lease is null)
            return;
        await _lease.TakeAsync(connection, _stopping.Token).ConfigureAwait(false);
        await CloseLeaseConnectionAsync().ConfigureAwait(false);
    }

    private async Task CloseLeaseConnectionAsync()
    {
        if (Interlocked.Exchange(ref _leaseConnection, null) is not { } connection)
            return;
        await RabbitMqEnd.EndAsync(Task.FromResult(connection), _timeProvider).ConfigureAwait(false);
    }

    private void Configure(IReceiveEndpointConfigurator endpoint, EndpointRun run)
    {
        // More than one at a time would reorder frames. Prefetched frames wait in the client.
        endpoint.ConcurrentMessageLimit = 1;
        endpoint.PrefetchCount = _connection.Options.Prefetch;
        endpoint.ConfigureConsumeTopology = false;
        endpoint.PublishFaults = false;
        endpoint.ClearSerialization();
        endpoint.AddSerializer(new FrameSerializerFactory());
        endpoint.AddDeserializer(new FrameSerializerFactory(), isDefault: true);
        // A failed frame returns to its place in the queue instead of an error queue that no one reads.
        endpoint.RethrowFaultedMessages();
        _connection.Topology.Bind(endpoint, _node.Value, run, TakeLeaseAsync);
        endpoint.ConnectReceiveEndpointObserver(run);
        endpoint.Handler<BatchEnvelope>(_consumer.ConsumeAsync);
    }

    private async Task StopEndpointAsync(CancellationToken cancellationToken)
    {
        using var timeout = new CancellationTokenSource(_connection.Options.StopTimeout, _timeProvider);
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(timeout.Token, cancellationToken);
        Task? stop = null;
        try
        {
            await _connection.DrainAsync(limit.Token).ConfigureAwait(false);
            stop = _endpoint.StopAsync();
            await stop.WaitAsync(limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (limit.IsCancellationRequested)
        {
            _log.FrameAbandoned(Queue, _connection.Options.StopTimeout);
        }
        finally
        {
            if (_lease is not null)
                await _lease.TryReleaseAsync(ReleaseLimit).ConfigureAwait(false);
        }

        // Not awaited: a callback of the next transport may hang.
        _ = _log.Logger.Faults.CancelAsync(_stopping);
        try
        {
            await (stop ?? _endpoint.StopAsync()).WaitAsync(EndLimit, _timeProvider, CancellationToken.None).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // The next transport ignores its token, or the endpoint has never connected. The process must end nevertheless; the bus, which is stopped last, has a limit of its own.
            Log.EndpointRemains(_log.Logger, Queue, EndLimit);
        }
    }
}

/// <summary>Passes one frame after another to the <see cref="BatchReceiver"/>. When a consume succeeds, MassTransit acknowledges the frame.</summary>
internal sealed class EnvelopeConsumer(BatchReceiver receiver, BusConnection connection, EndpointWatch watch, Func<string> queue, ReceiverLog log, CancellationToken stopping)
    : IDisposable
{
    // After a lost connection, frames of the old channel and the new one may arrive at the same time.
    private readonly SemaphoreSlim _turn = new(1, 1);

    public async Task ConsumeAsync(ConsumeContext<BatchEnvelope> context)
    {
        await _turn.WaitAsync(stopping).ConfigureAwait(false);
        watch.Deliveries.Begin();
        try
        {
            if (connection.Topology.IsOurs(context))
                await watch.Held.WatchAsync(receiver.ReceiveAsync(context.Message.Frame, stopping)).ConfigureAwait(false);
        }
        catch (FrameFormatException exception)
        {
            // The frame can never be read. Completing removes it from the queue; otherwise the broker would deliver it again and again.
            log.FrameUnreadable(context.Message.Bytes.Length, exception);
        }
        catch (Exception exception) when (!stopping.IsCancellationRequested)
        {
            log.DeliveryBroke(queue(), exception);
            throw;
        }
        finally
        {
            watch.Deliveries.End();
            _turn.Release();
            connection.Complete();
        }
    }

    public void Dispose() => _turn.Dispose();
}
