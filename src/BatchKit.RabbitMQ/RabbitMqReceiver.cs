using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Receives one node's frames from RabbitMQ, in order, and passes their batches to the next transport.</summary>
/// <remarks>
/// The receiver acknowledges a frame to the broker when the next transport has all its batches. Until then the broker keeps the frame, and delivers it again after a
/// lost connection. The receiver reconnects automatically. <c>ReceiveFromRabbitMq</c> registers it as a hosted service; without a host, start and stop it yourself.
/// </remarks>
public sealed class RabbitMqReceiver : IHostedService, IBlockingDisposable
{
    // Enough for a broker that answers to receive the last acknowledgement and close the connection.
    private static readonly TimeSpan LeastClosingTime = TimeSpan.FromMilliseconds(500);

    private readonly RabbitMqOptions _options;
    private readonly NodeNumber _node;

    // Null when the receiver declares nothing.
    private readonly RabbitMqNodeLease? _lease;
    private readonly RabbitMqGroupBindings? _groups;
    private readonly RabbitMqGroupBinder? _binder;
    private readonly BatchReceiver _receiver;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly RabbitMqTopology _topology;
    private readonly RabbitMqConnection _connection;
    private readonly RetrySchedule _schedule;
    private readonly ReceiverLifetime _lifetime;
    private int _failures;

    /// <summary>Creates a receiver; it does not connect yet.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="node">The node whose queue it receives from. The receiver leases the number at the broker, so only one receiver at a time can have it. From 0 to <see cref="OutputHandle.MaxNode"/>.</param>
    /// <param name="receiver">Decodes frames, drops repeats and passes batches on. Nothing else may use it.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="ArgumentOutOfRangeException">The node is outside its range.</exception>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public RabbitMqReceiver(
        RabbitMqOptions options, int node, BatchReceiver receiver, TimeProvider? timeProvider = null, ILogger<RabbitMqReceiver>? logger = null, ConnectionMetrics? metrics = null)
        : this(options, new NodeNumber(node), receiver, timeProvider, logger, metrics)
    {
    }

    /// <summary>Creates a receiver; it does not connect yet.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="node">The node whose queue it receives from. The receiver leases this number at the broker, or another one if it is taken and not fixed yet.</param>
    /// <param name="receiver">Decodes frames, drops repeats and passes batches on. Nothing else may use it.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public RabbitMqReceiver(
        RabbitMqOptions options, NodeNumber node, BatchReceiver receiver, TimeProvider? timeProvider = null, ILogger<RabbitMqReceiver>? logger = null, ConnectionMetrics? metrics = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(node);
        ArgumentNullException.ThrowIfNull(receiver);
        OptionsRules.ThrowIfInvalid(new RabbitMqOptionsValidator(), options);
        options = options.Copy();
        _options = options;
        _node = node;
        receiver.ReadFor(node);
        _receiver = receiver;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        _lifetime = new ReceiverLifetime(_timeProvider, _logger);
        _topology = new RabbitMqTopology(options);
        _schedule = new RetrySchedule(options.ReconnectDelay, options.MaxReconnectDelay);
        if (options is { DeclareTopology: true, RouteGroupsByMembers: true })
        {
            _groups = new RabbitMqGroupBindings(receiver.Groups, options.PublishTimeout, _timeProvider);
            var answers = new RabbitMqGroupAnswers(new RabbitMqConnector(options, "receiver's answers", _timeProvider), _topology, options.PublishTimeout, _timeProvider);
            _binder = new RabbitMqGroupBinder(_topology, _groups, answers, options.TopologyCheckInterval, _timeProvider, _logger);
        }

        _lease = options.DeclareTopology ? new RabbitMqNodeLease(options.Prefix, node, options.QueueType == RabbitMqQueueType.Quorum, _timeProvider) : null;
        var channelOptions = new CreateChannelOptions(publisherConfirmationsEnabled: false, publisherConfirmationTrackingEnabled: false, consumerDispatchConcurrency: 1);
        _connection = new RabbitMqConnection(options, "receiver", channelOptions, PrepareAsync, _timeProvider, _logger, metrics, _lease);
    }

    /// <summary>The name of the queue that it receives from.</summary>
    public string Queue => _topology.Queue(_node.Candidate);

    /// <summary>Why it receives nothing now, in a human-readable sentence without secrets; null while it receives.</summary>
    public string? Fault => _lifetime.Fault;

    /// <summary>The groups that have members on this node; null where nothing is declared, or groups are not routed by their members.</summary>
    internal RabbitMqGroupBindings? Groups => _groups;

    /// <summary>What the logger has thrown, in a sentence; null when it has thrown nothing.</summary>
    internal string? LoggerFault => _logger.Faults.Description;

    /// <summary>Counts what it has received, delivered and dropped. Call it at any time, from any thread.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    internal string? CallbackFault => _connection.CallbackFault;

    /// <summary>Starts to receive. Completes after the first attempt to connect, even if that failed; the receiver then keeps trying. A second call starts nothing more.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    /// <exception cref="NodeTakenException">Another process has the node's number, and <see cref="RabbitMqOptions.WaitsForNode"/> is not set.</exception>
    /// <exception cref="IOException">The broker can't be reached, and <see cref="RabbitMqOptions.FailFast"/> is set.</exception>
    /// <exception cref="ObjectDisposedException">The receiver was disposed.</exception>
    public async Task StartAsync(CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_lifetime.IsDisposed, this);
        if (!_lifetime.HasTried)
            await LeaseAsync(cancellationToken).ConfigureAwait(false);
        await _lifetime.StartAsync(RunAsync, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Connects and leases the node's number, once, before anything reads it. It fails because of an unreachable broker only when <see cref="RabbitMqOptions.FailFast"/> is set.</summary>
    /// <inheritdoc cref="StartAsync" path="/exception"/>
    internal async Task LeaseAsync(CancellationToken cancellationToken)
    {
        try
        {
            await CallerContext.RunWithout(() => _connection.OpenAsync(cancellationToken).AsTask()).ConfigureAwait(false);
        }
        catch (IOException exception)
        {
            var taken = FailureText.Find<NodeTakenException>(exception);
            if (taken is not null && !_options.WaitsForNode)
                throw new NodeTakenException(FailureText.MessageOf(taken), exception);
            if (taken is null && _options.FailFast)
                throw;
            _lifetime.Tried(FailureText.MessageOf(exception));
        }
    }

    /// <summary>Stops receiving, waits for the current frame, and closes the connection, within <see cref="RabbitMqOptions.StopTimeout"/>. Closing may take 0.5 s more.</summary>
    /// <param name="cancellationToken">Abandons the current frame at once.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_lifetime.IsDisposed)
            return;
        var began = _timeProvider.GetTimestamp();
        await _lifetime.StopAsync(Queue, _options.StopTimeout, cancellationToken).ConfigureAwait(false);
        // Where it did not receive, it still has the number, over an application's connection for as long as that one is open.
        if (_lease is not null)
            await _lease.TryReleaseAsync(LeastClosingTime).ConfigureAwait(false);
        var left = _options.StopTimeout - _timeProvider.GetElapsedTime(began);
        await _connection.CloseAsync(left > LeastClosingTime ? left : LeastClosingTime).ConfigureAwait(false);
    }

    /// <summary>Stops the receiver, if it runs.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        _lifetime.Dispose();
        _groups?.Dispose();
    }

    private async Task RunAsync()
    {
        while (!_lifetime.Stopping.IsCancellationRequested)
        {
            string fault;
            try
            {
                fault = await ReceiveAsync().ConfigureAwait(false);
                if (!_lifetime.Stopping.IsCancellationRequested)
                    _lifetime.Log.Ended(Queue, fault);
            }
            catch (OperationCanceledException) when (_lifetime.Stopping.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                // The connection has already logged its own failures (IOException). A new connection also ends failures of other kinds.
                fault = FailureText.MessageOf(exception);
                if (exception is not IOException)
                    _lifetime.Log.Ended(Queue, fault);
            }

            _lifetime.Tried(fault);
            await _lifetime.PauseAsync(_schedule.DelayAfter(++_failures, Random.Shared)).ConfigureAwait(false);
        }

        _lifetime.Tried("The receiver has stopped.");
    }

    private async Task<string> ReceiveAsync()
    {
        var ended = _options.DeclareTopology ? null : await ReceiveAsync(exclusive: true).ConfigureAwait(false);
        return ended ?? (await ReceiveAsync(exclusive: false).ConfigureAwait(false))!;
    }

    /// <summary>Receives over one connection until it ends.</summary>
    /// <returns>Why it ended; null when the broker refuses an exclusive consumer.</returns>
    private async Task<string?> ReceiveAsync(bool exclusive)
    {
        var open = await _connection.OpenAsync(_lifetime.Stopping).ConfigureAwait(false);
        var consumer = new RabbitMqConsumer(open.Channel, _receiver, _groups, Queue, _lifetime);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(_lifetime.Stopping);
        var binding = Task.CompletedTask;
        var isRefused = false;
        try
        {
            open.IsOnTrial = exclusive;
            isRefused = !await ConsumeInTimeAsync(open, consumer, exclusive).ConfigureAwait(false);
            if (isRefused)
                return null;
            open.IsOnTrial = false;
            _failures = 0;
            _lifetime.Log.Receiving(Queue, _connection.Target);
            _lifetime.Tried(fault: null);
            binding = BindGroupsAsync(open, consumer, ending.Token);
            // Known at once, although what follows waits for the frame in hand.
            return _lifetime.Fault = await WatchAsync(open, consumer).ConfigureAwait(false);
        }
        finally
        {
            // Frames must not overlap: the broker delivers this channel's unacknowledged frames again on the next channel, so the current frame must end first.
            await consumer.CloseAsync(_lifetime.Abandoning).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await ending.CancelAsync().ConfigureAwait(false);
            await binding.ConfigureAwait(false);
            if (_lifetime.Stopping.IsCancellationRequested && _lease is { } lease)
                await lease.TryReleaseAsync(LeastClosingTime).ConfigureAwait(false);
            _connection.Discard(open, _lifetime.Stopping.IsCancellationRequested || isRefused ? null : "The receiver's consumer ended.");
        }
    }

    // The client's calls may never end when their connection is lost; see RabbitMqCheck.
    private async Task<bool> ConsumeInTimeAsync(OpenChannel open, RabbitMqConsumer consumer, bool exclusive)
    {
        var consuming = ConsumeAsync(open.Channel, consumer, exclusive);
        try
        {
            return await consuming.WaitAsync(_options.ConnectTimeout, _timeProvider, _lifetime.Stopping).ConfigureAwait(false);
        }
        catch (TimeoutException exception)
        {
            _ = consuming.ContinueWith(static late => late.Exception, TaskScheduler.Default);
            throw new TimeoutException(FailureText.MessageOf(_connection.Explain(exception)), exception);
        }
    }

    private async Task<bool> ConsumeAsync(IChannel channel, RabbitMqConsumer consumer, bool exclusive)
    {
        if (!_options.DeclareTopology)
            return await RabbitMqTopology.TryConsumeGivenAsync(channel, Queue, exclusive, consumer, _lifetime.Stopping).ConfigureAwait(false);
        await channel.BasicConsumeAsync(Queue, autoAck: false, consumer, _lifetime.Stopping).ConfigureAwait(false);
        return true;
    }

    private async Task BindGroupsAsync(OpenChannel open, RabbitMqConsumer consumer, CancellationToken cancellationToken)
    {
        if (_binder is not null && await _binder.RunAsync(open.Connection, _node.Value, cancellationToken).ConfigureAwait(false) is { } failure)
            consumer.End(failure);
    }

    /// <summary>Waits until the consumer ends. Meanwhile it declares deleted objects again, because the broker notifies a consumer of a deleted queue but not of a deleted exchange or binding.</summary>
    /// <remarks>A cluster may end a deletion after it has ended the consumer. It then deletes the queue that the receiver has declared meanwhile, and does not notify the new consumer.</remarks>
    private async Task<string> WatchAsync(OpenChannel open, RabbitMqConsumer consumer)
    {
        var check = new RabbitMqCheck(ending => CheckAsync(open, ending), _options.ConnectTimeout, _timeProvider, _lifetime.Stopping);
        await using var _ = check.ConfigureAwait(false);
        while (true)
        {
            try
            {
                return await consumer.Ended.WaitAsync(_options.TopologyCheckInterval, _timeProvider, _lifetime.Stopping).ConfigureAwait(false);
            }
            catch (TimeoutException)
            {
                // It is time for the next check.
            }

            try
            {
                RabbitMqAlarm.Of(open.Connection).ThrowIfRaised();
                if (await check.RunAsync(consumer.Ended).ConfigureAwait(false) is not { } found)
                    continue;
                if (Evaluate(await found.ConfigureAwait(false), consumer.Deliveries) is { } end)
                    return end;
            }
            catch (Exception exception) when (open.Channel.IsOpen && exception is OperationInterruptedException or NodeTakenException or RabbitMqAlarmException)
            {
                // Frames that are already in the queue are still received.
                SetFault(FailureText.MessageOf(_connection.Explain(exception)));
            }
            catch (Exception exception) when (!_lifetime.Stopping.IsCancellationRequested)
            {
                // The connection is about to end, or the broker is slow. The heartbeat shows which, some of them later.
                if (exception is TimeoutException or OperationCanceledException)
                    SetFault(FailureText.MessageOf(_connection.Explain(exception)));
            }
        }
    }

    /// <returns>How many frames wait in the queue; null when it does not exist.</returns>
    private async Task<uint?> CheckAsync(OpenChannel open, CancellationToken cancellationToken)
    {
        var waiting = await _topology.CheckAsync(open.Connection, _node.Value, _groups?.StaysOnAll ?? true, _timeProvider, cancellationToken).ConfigureAwait(false);
        if (waiting is not null && _lease is not null)
            await _lease.TakeAsync(open.Connection, cancellationToken).ConfigureAwait(false);
        return waiting;
    }

    /// <returns>Why the consumer must be replaced; null while it receives.</returns>
    private string? Evaluate(uint? found, DeliveryWatch deliveries)
    {
        if (found is not { } waiting)
            return "The queue does not exist any more, although the broker has not ended the consumer.";
        if (deliveries.IsStalled(waiting))
            return DeliveryWatch.Describe(waiting);
        var heldChecks = deliveries.CountHeldChecks();
        SetFault(heldChecks > 0 ? DeliveryWatch.DescribeHeld(waiting, _options.TopologyCheckInterval) : null, isRepeat: heldChecks > 1);
        return null;
    }

    // A repeat is not logged: how many frames wait behind a held one changes with each check.
    private void SetFault(string? fault, bool isRepeat = false)
    {
        if (fault is not null && fault != _lifetime.Fault && !isRepeat)
            _lifetime.Log.Impaired(Queue, fault);
        _lifetime.Fault = fault;
    }

    private async Task PrepareAsync(IConnection connection, IChannel channel, CancellationToken cancellationToken)
    {
        if (_lease is not null)
            await _lease.TakeAsync(connection, cancellationToken).ConfigureAwait(false);
        await _topology.DeclareQueueAsync(channel, _node.Value, takesAll: true, cancellationToken).ConfigureAwait(false);
        _groups?.Begin();
        await channel.BasicQosAsync(prefetchSize: 0, (ushort)_options.Prefetch, global: false, cancellationToken).ConfigureAwait(false);
    }
}
