using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

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
