using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using NATS.Client.Core;

namespace BatchKit.Nats;

/// <summary>Receives one node's frames from NATS, in order, and passes their batches to the next transport.</summary>
/// <remarks>
/// With <see cref="NatsDelivery.AtLeastOnce"/> it acknowledges a frame when the next transport has all its batches. A receiver that ends before that leaves the frame to its successor, within 5 seconds. With
/// <see cref="NatsDelivery.AtMostOnce"/> it gets what is published while it is connected. <c>ReceiveFromNats</c> registers it as a hosted service; without a host, start and stop it yourself.
/// </remarks>
public sealed class NatsReceiver : IHostedService, IBlockingDisposable
{
    private static readonly TimeSpan FirstDelay = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan LongestDelay = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan ReleaseLimit = TimeSpan.FromSeconds(1);

    private readonly NatsLink _link;
    private readonly bool _ownsLink;
    private readonly NatsOptions _options;
    private readonly NatsTopology _topology;
    private readonly NodeNumber _node;
    private readonly BatchReceiver _receiver;
    private readonly FrameReceiver _frames;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly ConnectionReporter _reporter;
    private readonly FrameDrops _dropped;

    // Null when nothing is declared, and with core NATS, which may be a server without JetStream.
    private readonly NatsNodeLease? _lease;
    private readonly RetrySchedule _schedule = new(FirstDelay, LongestDelay);
    private readonly ReceiverLifetime _lifetime;
    private int _failures;

    /// <summary>Creates a receiver; it does not connect yet.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="node">The node whose frames it receives, beside those for all nodes. The receiver leases this number, or another one if it is taken and not fixed yet.</param>
    /// <param name="receiver">Decodes frames, drops repeats and passes batches on. Nothing else may use it.</param>
    /// <param name="connection">The application's connection, which is never closed; it is used when <see cref="NatsOptions.Url"/> is null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public NatsReceiver(
        NatsOptions options, NodeNumber node, BatchReceiver receiver, INatsConnection? connection = null,
        TimeProvider? timeProvider = null, ILogger<NatsReceiver>? logger = null, ConnectionMetrics? metrics = null)
        : this(options = NatsTransport.Check(options), node, receiver, new NatsLink(options, connection, logger), timeProvider, logger, metrics, meterFactory: null) => _ownsLink = true;

    internal NatsReceiver(
        NatsOptions options, NodeNumber node, BatchReceiver receiver, NatsLink link,
        TimeProvider? timeProvider, ILogger<NatsReceiver>? logger, ConnectionMetrics? metrics, IMeterFactory? meterFactory, string buffer = "")
    {
        ArgumentNullException.ThrowIfNull(node);
        ArgumentNullException.ThrowIfNull(receiver);
        receiver.ReadFor(node);
        (_options, _node, _receiver, _link, _topology) = (options, node, receiver, link, new NatsTopology(options));
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        _lifetime = new ReceiverLifetime(_timeProvider, _logger);
        _frames = new FrameReceiver(receiver, new LoggerOf<FrameReceiver>(_logger));
        _reporter = new ConnectionReporter(options.ConnectionChanged, "receiver", link.Target, metrics, "nats", options.Prefix);
        _lease = options is { DeclareTopology: true, Delivery: NatsDelivery.AtLeastOnce } ? new NatsNodeLease(link, _topology.Bucket, options.Replicas, node, _timeProvider) : null;
        _dropped = new FrameDrops("batchkit.nats.dropped", buffer, meterFactory, _logger.Faults);
    }

    /// <summary>How many received frames were dropped because more than <see cref="NatsOptions.MaxWaitingFrames"/>, or 64 MiB of them, waited.</summary>
    public long DroppedFrames => _dropped.Count;

    /// <summary>Why it receives nothing now, in a sentence without secrets; null while it receives.</summary>
    public string? Fault => _lifetime.Fault ?? _link.Fault;

    internal string? ObserverFault => _logger.Faults.Description ?? _link.LoggerFault ?? _reporter.CallbackFault;

    /// <summary>Counts what it has received, delivered and dropped. Call it at any time, from any thread.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();

    /// <summary>Starts to receive. Completes after the first attempt, even if that failed; the receiver then keeps trying. A second call starts nothing more.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    /// <exception cref="NodeTakenException">Another process has the node's number, and <see cref="NatsOptions.WaitsForNode"/> is not set.</exception>
    /// <exception cref="InvalidOperationException">The server takes no frame of <see cref="NatsOptions.MaxFrameBytes"/>.</exception>
    /// <exception cref="ObjectDisposedException">The receiver was disposed.</exception>
    public async Task StartAsync(CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_lifetime.IsDisposed, this);
        if (!_lifetime.HasTried)
            await LeaseAsync(cancellationToken).ConfigureAwait(false);
        await _lifetime.StartAsync(RunAsync, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Stops receiving, waits for the current frame within <see cref="NatsOptions.StopTimeout"/>, and gives the node's number back.</summary>
    /// <param name="cancellationToken">Abandons the current frame at once.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_lifetime.IsDisposed)
            return;
        var hasEnded = await _lifetime.StopAsync(_options.Prefix, _options.StopTimeout, cancellationToken).ConfigureAwait(false);
        // A next hop that goes on may still get an old frame: the number stays taken until the lease expires.
        if (hasEnded && _lease is not null)
            await ReleaseAsync(_lease).ConfigureAwait(false);
        else
            _lease?.EndRenewal();
        _reporter.Close();
    }

    /// <summary>Stops the receiver, if it runs.</summary>
    public async ValueTask DisposeAsync()
    {
        // A container disposes it once for each of its registrations.
        if (_lifetime.IsDisposed)
            return;
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        _lifetime.Dispose();
        _lease?.Dispose();
        _dropped.Dispose();
        if (_ownsLink)
            await _link.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>Connects and leases the node's number, once, before anything reads it. A server that is away fails nothing.</summary>
    internal async Task LeaseAsync(CancellationToken cancellationToken)
    {
        try
        {
            _link.Watch(_reporter);
            await CallerContext.RunWithout(() => TakeAsync(cancellationToken)).ConfigureAwait(false);
        }
        catch (NodeTakenException exception) when (_options.WaitsForNode)
        {
            _lifetime.Tried(NatsLink.Describe(exception));
        }
        catch (Exception exception) when (exception is IOException or NatsException or TimeoutException)
        {
            _lifetime.Tried(NatsLink.Describe(exception));
        }
    }

    private async Task TakeAsync(CancellationToken cancellationToken)
    {
        await _link.OpenAsync(cancellationToken).ConfigureAwait(false);
        _link.ThrowIfTooSmall(_options.MaxFrameBytes);
        if (_lease is not null)
            await _lease.TakeAsync(cancellationToken).ConfigureAwait(false);
    }

    private async Task RunAsync()
    {
        while (!_lifetime.Stopping.IsCancellationRequested)
        {
            var fault = await TryReceiveAsync().ConfigureAwait(false);
            if (_lifetime.Stopping.IsCancellationRequested)
                break;
            _lifetime.Log.Ended(_options.Prefix, fault);
            _lifetime.Tried(fault);
            await _lifetime.PauseAsync(_schedule.DelayAfter(++_failures, Random.Shared)).ConfigureAwait(false);
        }

        _lifetime.Tried("The receiver has stopped.");
    }

    /// <summary>Receives until the lease is lost, the receiver stops, or the server fails.</summary>
    /// <returns>Why it has ended.</returns>
    private async Task<string> TryReceiveAsync()
    {
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(_lifetime.Stopping);
        using var abandoning = CancellationTokenSource.CreateLinkedTokenSource(_lifetime.Abandoning);
        try
        {
            await TakeAsync(_lifetime.Stopping).ConfigureAwait(false);
            var receiving = ReceiveAsync(ending.Token, abandoning.Token);
            var lost = _lease?.Lost;
            if (await Task.WhenAny(receiving, lost ?? receiving).ConfigureAwait(false) == receiving)
            {
                await receiving.ConfigureAwait(false);
                return "The server sends nothing more.";
            }

            // Another process may have the number: the frame in hand goes back. Told at once, because the next hop may keep it.
            var reason = await lost!.ConfigureAwait(false);
            _lifetime.Log.Ended(_options.Prefix, reason);
            _lifetime.Fault = reason;
            await ending.CancelAsync().ConfigureAwait(false);
            _ = _logger.Faults.CancelAsync(abandoning);
            await receiving.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            return reason;
        }
        catch (OperationCanceledException) when (_lifetime.Stopping.IsCancellationRequested)
        {
            return "The receiver has stopped.";
        }
        catch (Exception exception)
        {
            return NatsLink.Describe(exception);
        }
    }

    private async Task ReceiveAsync(CancellationToken ending, CancellationToken abandoning)
    {
        if (_options.Delivery == NatsDelivery.AtMostOnce)
        {
            await CoreSubscription.ReceiveAsync(_link, _topology.Subjects(_node.Value), _frames, _lifetime, _options.MaxWaitingFrames, Begin, CountDropped, ending).ConfigureAwait(false);
            return;
        }

        var canFilter = NatsTopology.CanFilter(_link.Connection.ServerInfo?.Version);
        var consumer = await _topology.GetConsumerAsync(_link.JetStream, _node.Value, canFilter, ending).ConfigureAwait(false);
        Begin();
        if (!canFilter)
            Log.ReadsAllNodes(_logger, _link.Target, _options.Prefix);
        var delivery = new StreamDelivery(_frames, _topology.Subjects(_node.Value), IsHeldAsync, _lifetime, _timeProvider);
        await delivery.RunAsync(consumer, ending, abandoning).ConfigureAwait(false);
    }

    private ValueTask<bool> IsHeldAsync(CancellationToken cancellationToken) => _lease?.IsHeldAsync(cancellationToken) ?? ValueTask.FromResult(true);

    private void Begin()
    {
        _failures = 0;
        _lifetime.Log.Receiving($"{_options.Prefix}, node {_node.Value},", _link.Target);
        _lifetime.Tried(fault: null);
    }

    private void CountDropped(string limitName, int limit)
    {
        _dropped.Add();
        _lifetime.Log.FramesDropped(limitName, limit);
    }

    // A successor then finds the number free at once. If this fails, the server frees it when the lease's time is over.
    private async Task ReleaseAsync(NatsNodeLease lease)
    {
        using var limit = new CancellationTokenSource(ReleaseLimit, _timeProvider);
        await lease.ReleaseAsync(limit.Token).WaitAsync(limit.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }
}
