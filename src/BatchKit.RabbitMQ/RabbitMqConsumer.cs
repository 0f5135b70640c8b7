using BatchKit.Diagnostics;
using BatchKit.Transports;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Receives the frames of one channel, one at a time, and acknowledges each when the <see cref="BatchReceiver"/> is done with it.</summary>
internal sealed class RabbitMqConsumer : AsyncDefaultBasicConsumer
{
    private readonly BatchReceiver _receiver;

    // Null where nothing is declared.
    private readonly RabbitMqGroupBindings? _groups;
    private readonly string _queue;
    private readonly ReceiverLifetime _lifetime;

    private readonly TaskCompletionSource<string> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Guards the fields below.
    private readonly Lock _lock = new();
    private bool _isBusy;
    private bool _isClosed;

    // Completes when the frame that was in hand at the close is done.
    private TaskCompletionSource? _done;

    public RabbitMqConsumer(IChannel channel, BatchReceiver receiver, RabbitMqGroupBindings? groups, string queue, ReceiverLifetime lifetime)
        : base(channel)
    {
        _receiver = receiver;
        _groups = groups;
        _queue = queue;
        _lifetime = lifetime;
        channel.ChannelShutdownAsync += OnShutdownAsync;
        channel.CallbackExceptionAsync += OnClientFailedAsync;
    }

    /// <summary>Whether frames come.</summary>
    public DeliveryWatch Deliveries { get; } = new();

    /// <summary>Completes with the reason when no more frames will come.</summary>
    public Task<string> Ended => _ended.Task;

    public override async Task HandleBasicDeliverAsync(string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
        IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
    {
        lock (_lock)
        {
            // The client had prefetched this frame when the consumer was closed. It is not acknowledged, so the broker delivers it again.
            if (_isClosed)
                return;
            _isBusy = true;
        }

        Deliveries.Begin();
        try
        {
            await ReceiveAsync(deliveryTag, properties, body).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (_lifetime.Abandoning.IsCancellationRequested)
        {
            _ended.TrySetResult("The receiver stopped.");
        }
        catch (AlreadyClosedException exception)
        {
            // The next hop has the frame, but it can't be acknowledged. The broker delivers it again, and the receiver drops it as a repeat.
            _ended.TrySetResult(FailureText.MessageOf(exception));
        }
        catch (Exception exception)
        {
            _lifetime.Log.DeliveryBroke(_queue, exception);
            _ = Close();
            _ended.TrySetResult(FailureText.MessageOf(exception));
        }
        finally
        {
            Deliveries.End();
            Complete();
        }
    }

    public override Task HandleBasicCancelAsync(string consumerTag, CancellationToken cancellationToken = default)
    {
        _ended.TrySetResult("The broker ended the consumer, as it does when the queue is deleted.");
        return base.HandleBasicCancelAsync(consumerTag, cancellationToken);
    }

    /// <summary>Stops receiving frames, and waits for the current one.</summary>
    public Task CloseAsync(CancellationToken cancellationToken) => Close().WaitAsync(cancellationToken);

    /// <summary>Ends it, because something else that belongs to its connection has ended.</summary>
    public void End(string reason) => _ended.TrySetResult(reason);

    private async Task ReceiveAsync(ulong deliveryTag, IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body)
    {
        try
        {
            // The client's buffer is valid until this method returns, and the receiver does not use it after that.
            await _receiver.ReceiveAsync(body, _lifetime.Abandoning).ConfigureAwait(false);
        }
        catch (FrameFormatException exception)
        {
            _lifetime.Log.FrameUnreadable(body.Length, exception);
            await Channel.BasicRejectAsync(deliveryTag, requeue: false, CancellationToken.None).ConfigureAwait(false);
            return;
        }

        // The next hop has applied the joins of the frame, so what they need is bound or about to be.
        if (_groups is not null && RabbitMqTopology.IsReplyKey(properties.ReplyTo))
            _groups.Confirm(properties.ReplyTo!, properties.CorrelationId);
        await Channel.BasicAckAsync(deliveryTag, multiple: false, CancellationToken.None).ConfigureAwait(false);
    }

    private void Complete()
    {
        lock (_lock)
        {
            _isBusy = false;
            _done?.SetResult();
        }
    }

    private Task Close()
    {
        lock (_lock)
        {
            _isClosed = true;
            if (!_isBusy)
                return Task.CompletedTask;
            _done ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            return _done.Task;
        }
    }

    // When an activity listener throws during a delivery, the client drops the frame unacknowledged and delivers the next one. The dropped frame would later count as a repeat, because a newer number came
    // first. So the broker must deliver that frame and all after it again, over a new channel.
    private Task OnClientFailedAsync(object sender, CallbackExceptionEventArgs failure)
    {
        _ = Close();
        _ended.TrySetResult($"The client could not deliver a frame: {FailureText.MessageOf(failure.Exception)}");
        return Task.CompletedTask;
    }

    private Task OnShutdownAsync(object sender, ShutdownEventArgs reason)
    {
        _ended.TrySetResult($"{RabbitMqClosing.Describe(reason).TrimEnd('.')}.");
        return Task.CompletedTask;
    }
}
