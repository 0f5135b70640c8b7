using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Takes one node's frames off RabbitMQ, in order, and hands their batches to the next transport.</summary>
/// <remarks>
/// A frame is acknowledged to the broker when the next transport has all its batches; until then the broker keeps it, and gives it again after a
/// lost connection. It connects again by itself. <c>ReceiveFromRabbitMq</c> registers it as a hosted service; without a host start and stop it by hand.
/// </remarks>
public sealed class RabbitMqReceiver : IHostedService, IAsyncDisposable
{
    // Enough for a broker that answers to take the last acknowledgement and say goodbye.
    private static readonly TimeSpan LeastClosingTime = TimeSpan.FromMilliseconds(500);

    private readonly RabbitMqOptions _options;
    private readonly int _node;
    private readonly BatchReceiver _receiver;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly RabbitMqTopology _topology;
    private readonly RabbitMqConnection _connection;
    private readonly RetrySchedule _schedule;
    private readonly CancellationTokenSource _stopping = new();
    private readonly CancellationTokenSource _abandoning = new();
    private readonly TaskCompletionSource _triedOnce = new(TaskCreationOptions.RunContinuationsAsynchronously);

    private Task _running = Task.CompletedTask;
    private int _failures;
    private bool _isDisposed;
    private volatile string? _fault = "The receiver has not started.";

    /// <summary>Makes a receiver; it does not connect yet.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="node">The node whose queue it takes frames from.</param>
    /// <param name="receiver">Decodes them, drops repeats and hands them on. It is this receiver's alone.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public RabbitMqReceiver(RabbitMqOptions options, int node, BatchReceiver receiver, TimeProvider? timeProvider = null, ILogger<RabbitMqReceiver>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(receiver);
        ArgumentOutOfRangeException.ThrowIfNegative(node);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(node, OutputHandle.MaxNode);
        RabbitMqOptionsValidator.ThrowIfInvalid(options);
        _options = options;
        _node = node;
        _receiver = receiver;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = logger ?? NullLogger<RabbitMqReceiver>.Instance;
        _topology = new RabbitMqTopology(options);
        _schedule = new RetrySchedule(options.ReconnectDelay, options.MaxReconnectDelay);
        Queue = _topology.Queue(node);
        var channelOptions = new CreateChannelOptions(publisherConfirmationsEnabled: false, publisherConfirmationTrackingEnabled: false, consumerDispatchConcurrency: 1);
        _connection = new RabbitMqConnection(options, "receiver", channelOptions, PrepareAsync, _timeProvider, _logger);
    }

    /// <summary>The name of the queue that it takes frames from.</summary>
    public string Queue { get; }

    /// <summary>Why it receives nothing now, for a person and without secrets; null while it receives.</summary>
    public string? Fault => _fault;

    /// <summary>What it has received, delivered and dropped, at any time and from any thread.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();

    /// <summary>Starts to receive. Completes after the first attempt to connect, also when that failed: it goes on trying.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    public Task StartAsync(CancellationToken cancellationToken)
    {
        _running = RunAsync();
        return _triedOnce.Task.WaitAsync(cancellationToken);
    }

    /// <summary>Takes no more frames, lets the one in hand finish, and closes the connection, all within <see cref="RabbitMqOptions.StopTimeout"/>.</summary>
    /// <param name="cancellationToken">Abandons the frame in hand at once.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_isDisposed)
            return;
        var began = _timeProvider.GetTimestamp();
        await _stopping.CancelAsync().ConfigureAwait(false);
        try
        {
            await _running.WaitAsync(_options.StopTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            Log.FrameAbandoned(_logger, Queue, _options.StopTimeout);
            await _abandoning.CancelAsync().ConfigureAwait(false);
            await _running.ConfigureAwait(false);
        }

        var left = _options.StopTimeout - _timeProvider.GetElapsedTime(began);
        await _connection.CloseAsync(left > LeastClosingTime ? left : LeastClosingTime).ConfigureAwait(false);
    }

    /// <summary>Stops it, if that has not been done.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        _stopping.Dispose();
        _abandoning.Dispose();
    }

    private async Task RunAsync()
    {
        // Starting must not wait for what the client does before its first await.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        while (!_stopping.IsCancellationRequested)
        {
            try
            {
                _fault = await ReceiveAsync().ConfigureAwait(false);
                if (!_stopping.IsCancellationRequested)
                    Log.ReceivingEnded(_logger, Queue, _fault);
            }
            catch (OperationCanceledException) when (_stopping.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                // The connection has logged what kept it from opening; whatever else it is, the way out is to connect again.
                if (exception is not IOException)
                    Log.ReceivingEnded(_logger, Queue, exception.Message);
                _fault = exception.Message;
            }

            _triedOnce.TrySetResult();
            await Task.Delay(_schedule.DelayAfter(++_failures, Random.Shared), _timeProvider, _stopping.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }

        _fault = "The receiver has stopped.";
        _triedOnce.TrySetResult();
    }

    private async Task<string> ReceiveAsync()
    {
        var open = await _connection.OpenAsync(_stopping.Token).ConfigureAwait(false);
        var consumer = new RabbitMqConsumer(open.Channel, _receiver, Queue, _logger, _abandoning.Token);
        try
        {
            await open.Channel.BasicConsumeAsync(Queue, autoAck: false, consumer, _stopping.Token).ConfigureAwait(false);
            _fault = null;
            _failures = 0;
            Log.Receiving(_logger, Queue, _connection.Target);
            _triedOnce.TrySetResult();
            return await consumer.Ended.WaitAsync(_stopping.Token).ConfigureAwait(false);
        }
        finally
        {
            // Frames must not overlap: the next channel gets this one's unacknowledged frames again, so this one must be done with its last.
            await consumer.CloseAsync(_abandoning.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            _connection.Discard(open);
        }
    }

    private async Task PrepareAsync(IChannel channel, CancellationToken cancellationToken)
    {
        await _topology.DeclareQueueAsync(channel, _node, cancellationToken).ConfigureAwait(false);
        await channel.BasicQosAsync(prefetchSize: 0, (ushort)_options.Prefetch, global: false, cancellationToken).ConfigureAwait(false);
    }
}

/// <summary>Takes the frames of one channel, one at a time, and acknowledges each when the receiver is done with it.</summary>
internal sealed class RabbitMqConsumer : AsyncDefaultBasicConsumer
{
    private readonly BatchReceiver _receiver;
    private readonly string _queue;
    private readonly ILogger _logger;

    // Cancels the frame in hand, which only a stop that has waited long enough does.
    private readonly CancellationToken _abandon;

    private readonly TaskCompletionSource<string> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Guards the two below.
    private readonly Lock _lock = new();
    private Task _inHand = Task.CompletedTask;
    private bool _isClosed;

    public RabbitMqConsumer(IChannel channel, BatchReceiver receiver, string queue, ILogger logger, CancellationToken abandon)
        : base(channel)
    {
        _receiver = receiver;
        _queue = queue;
        _logger = logger;
        _abandon = abandon;
        channel.ChannelShutdownAsync += OnShutdownAsync;
    }

    /// <summary>Completes when no more frames will come, with the reason.</summary>
    public Task<string> Ended => _ended.Task;

    public override async Task HandleBasicDeliverAsync(string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
        IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_lock)
        {
            // What the client had read ahead when this consumer was closed is still the broker's: it comes again.
            if (_isClosed)
                return;
            _inHand = done.Task;
        }

        try
        {
            await TakeAsync(deliveryTag, body).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (_abandon.IsCancellationRequested)
        {
            _ended.TrySetResult("The receiver stopped.");
        }
        catch (AlreadyClosedException exception)
        {
            // The frame was handed on, but the broker can't be told: it comes again and is dropped as a repeat.
            _ended.TrySetResult(exception.Message);
        }
        catch (Exception exception)
        {
            Log.FrameFailed(_logger, exception, _queue);
            _ = Close();
            _ended.TrySetResult(exception.Message);
        }
        finally
        {
            done.SetResult();
        }
    }

    public override Task HandleBasicCancelAsync(string consumerTag, CancellationToken cancellationToken = default)
    {
        _ended.TrySetResult("The broker ended it, as when the queue was deleted.");
        return base.HandleBasicCancelAsync(consumerTag, cancellationToken);
    }

    /// <summary>Takes no more frames and waits for the one in hand.</summary>
    public Task CloseAsync(CancellationToken cancellationToken) => Close().WaitAsync(cancellationToken);

    private async Task TakeAsync(ulong deliveryTag, ReadOnlyMemory<byte> body)
    {
        try
        {
            // The client's buffer is ours until this returns, which is as long as the receiver uses it.
            await _receiver.ReceiveAsync(body, _abandon).ConfigureAwait(false);
        }
        catch (FrameFormatException exception)
        {
            Log.FrameRejected(_logger, exception, body.Length, _queue);
            await Channel.BasicRejectAsync(deliveryTag, requeue: false, CancellationToken.None).ConfigureAwait(false);
            return;
        }

        await Channel.BasicAckAsync(deliveryTag, multiple: false, CancellationToken.None).ConfigureAwait(false);
    }

    private Task Close()
    {
        lock (_lock)
        {
            _isClosed = true;
            return _inHand;
        }
    }

    private Task OnShutdownAsync(object sender, ShutdownEventArgs reason)
    {
        _ended.TrySetResult($"{reason.ReplyText}.");
        return Task.CompletedTask;
    }
}
