using System.Buffers;
using BatchKit.Diagnostics;
using MQTTnet;
using MQTTnet.Exceptions;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>One call with an application's own messages: starts their publishes in order, as many as fit in the window, and settles them in order.</summary>
/// <remarks>The publishes are awaited one after the other, oldest first, so that none of them needs a state machine or a continuation of its own.</remarks>
/// <param name="parts">The transport's objects.</param>
/// <param name="messages">The messages.</param>
/// <param name="mayEndEarly">True when the call can be cancelled. It may then end before the client has encoded what was started, so the client gets lists of properties that are not the caller's.</param>
internal sealed class ManyPublish(PublishParts parts, ReadOnlyMemory<MqttApplicationMessage> messages, bool mayEndEarly)
{
    private readonly PublishManyResults _results = new(messages.Length);
    private readonly int _connection = parts.Watch.Connection;
    private readonly long _endedBefore = parts.Window.Ended;

    // The publish of message n is at n modulo the length; null once it is settled.
    private readonly Task<MqttClientPublishResult>?[] _publishes = ArrayPool<Task<MqttClientPublishResult>?>.Shared.Rent(Math.Max(1, Math.Min(messages.Length, parts.Window.Size)));

    // The next message to start, and the oldest one that is not settled.
    private int _next;
    private int _oldest;

    /// <summary>Publishes the messages.</summary>
    public async ValueTask<PublishManyReport> RunAsync(CancellationToken cancellationToken)
    {
        try
        {
            while (true)
            {
                StartUntilFull(cancellationToken);
                // Settled messages leave capacity for others.
                if (SettleCompleted())
                    continue;
                if (_oldest == messages.Length)
                    break;
                if (_oldest < _next)
                    await WaitForOldestAsync(cancellationToken).ConfigureAwait(false);
                else
                    await parts.Window.WaitForCapacityAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
                cancellationToken.ThrowIfCancellationRequested();
            }
        }
        catch (OperationCanceledException exception) when (parts.Window.FindStall(_endedBefore) is { } stall)
        {
            throw new OperationCanceledException(stall, exception, cancellationToken);
        }
        finally
        {
            Abandon();
        }

        return _results.ToReport();
    }

    private void StartUntilFull(CancellationToken cancellationToken)
    {
        // The end of the hold writes everything that this thread has written to a batched channel.
        using var hold = WriteHold.Begin();
        for (var span = messages.Span; _next < span.Length; _next++)
        {
            if (_next - _oldest == _publishes.Length)
                return;
            cancellationToken.ThrowIfCancellationRequested();
            if (parts.FindFault(span[_next]) is { } fault)
            {
                _results.Refuse(_next, fault);
                continue;
            }

            if (!parts.Window.TryEnter())
                return;
            Start(span[_next]);
        }
    }

    private void Start(MqttApplicationMessage message)
    {
        // After a lost connection, later messages would overtake the lost ones.
        if (!parts.Client.IsConnected || parts.Watch.Connection != _connection)
        {
            parts.Window.Leave();
            _results.Fail(_next, new PublishManyResult(PublishManyOutcome.NotSent, Reason: "The MQTT client lost its connection before the message was published."));
            return;
        }

        Task<MqttClientPublishResult> publish;
        try
        {
            // Never cancelled: a cancelled write may stop inside a packet.
            publish = parts.Client.PublishAsync(MustCopy(message) ? Copy(message) : message, CancellationToken.None);
        }
        catch (Exception exception)
        {
            publish = Task.FromException<MqttClientPublishResult>(exception);
        }

        if (publish.IsCompleted)
            Settle(_next, publish);
        else
            _publishes[_next % _publishes.Length] = publish;
    }

    private bool MustCopy(MqttApplicationMessage message) => message.SubscriptionIdentifiers is { Count: > 0 } || (mayEndEarly && message.UserProperties is { Count: > 0 });

    // Without subscription identifiers, which a received message has and a client must not send (MQTT-3.3.4-6): the broker would end the connection.
    private static MqttApplicationMessage Copy(MqttApplicationMessage message) => new()
    {
        ContentType = message.ContentType,
        CorrelationData = message.CorrelationData,
        Dup = message.Dup,
        MessageExpiryInterval = message.MessageExpiryInterval,
        Payload = message.Payload,
        PayloadFormatIndicator = message.PayloadFormatIndicator,
        QualityOfServiceLevel = message.QualityOfServiceLevel,
        ResponseTopic = message.ResponseTopic,
        Retain = message.Retain,
        Topic = message.Topic,
        TopicAlias = message.TopicAlias,
        UserProperties = message.UserProperties is { } properties ? [.. properties] : null,
    };

    // A broker acknowledges in the order of the publishes (MQTT 5, section 4.6), so the oldest one completes first.
    private async ValueTask WaitForOldestAsync(CancellationToken cancellationToken)
    {
        Task oldest = _publishes[_oldest % _publishes.Length]!;
        await oldest.WaitAsync(cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    // True when the oldest messages have been settled.
    private bool SettleCompleted()
    {
        var before = _oldest;
        for (; _oldest < _next; _oldest++)
        {
            ref var publish = ref _publishes[_oldest % _publishes.Length];
            if (publish is null)
                continue;
            if (!publish.IsCompleted)
                break;
            Settle(_oldest, publish);
            publish = null;
        }

        return _oldest > before;
    }

    private void Settle(int index, Task<MqttClientPublishResult> publish)
    {
        parts.Window.Leave();
        if (publish.IsCompletedSuccessfully)
        {
            _results.Answer(index, publish.Result.ReasonCode, publish.Result.ReasonString);
            return;
        }

        var error = publish.Exception?.InnerException ?? new MqttCommunicationException("The MQTT client ended the publish without an answer.");
        // MQTTnet throws these before it writes anything, because the message itself is at fault.
        var outcome = error is NotSupportedException or MqttProtocolViolationException or ArgumentException ? PublishManyOutcome.Refused : PublishManyOutcome.Failed;
        _results.Fail(index, new PublishManyResult(outcome, Reason: FailureText.MessageOf(error), Error: error));
    }

    // After a cancellation, publishes that are under way count against the window until they end.
    private void Abandon()
    {
        for (; _oldest < _next; _oldest++)
        {
            ref var publish = ref _publishes[_oldest % _publishes.Length];
            _ = publish?.ContinueWith(
                static (ended, window) =>
                {
                    // Observed, so that it is not reported as unobserved.
                    _ = ended.Exception;
                    ((PublishWindow)window!).Leave();
                },
                parts.Window, CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
            publish = null;
        }

        ArrayPool<Task<MqttClientPublishResult>?>.Shared.Return(_publishes);
    }
}
