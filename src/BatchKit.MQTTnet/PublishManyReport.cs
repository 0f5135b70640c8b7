using BatchKit.Mqtt.Packets;
using MQTTnet;

namespace BatchKit.MQTTnet;

/// <summary>The results of the messages of one <see cref="MqttClientTransport.PublishManyAsync"/>, in their order.</summary>
/// <remarks>It allocates nothing when every message is a plain success.</remarks>
public readonly struct PublishManyReport
{
    // Null when every message is a plain success. One byte for each message, because a broker without subscribers answers each message with a code other than Success.
    private readonly byte[]? _reasonCodes;

    // The messages that did not succeed.
    private readonly Dictionary<int, PublishManyResult>? _failures;

    internal PublishManyReport(int count, byte[]? reasonCodes, Dictionary<int, PublishManyResult>? failures)
    {
        Count = count;
        _reasonCodes = reasonCodes;
        _failures = failures;
    }

    /// <summary>The number of messages.</summary>
    public int Count { get; }

    /// <summary>True when every message succeeded.</summary>
    public bool IsSuccess => _failures is null;

    /// <summary>The number of messages that did not succeed.</summary>
    public int FailedMessages => _failures?.Count ?? 0;

    /// <summary>One message's result.</summary>
    /// <param name="index">The zero-based index of the message.</param>
    /// <exception cref="ArgumentOutOfRangeException">The index is below zero, or not below <see cref="Count"/>.</exception>
    public PublishManyResult this[int index]
    {
        get
        {
            ArgumentOutOfRangeException.ThrowIfNegative(index);
            ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(index, Count);
            if (_failures is not null && _failures.TryGetValue(index, out var failure))
                return failure;
            return new PublishManyResult(PublishManyOutcome.Succeeded, (MqttClientPublishReasonCode)(_reasonCodes?[index] ?? 0));
        }
    }
}

/// <summary>The results of the messages of one <see cref="MqttServerTransport.InjectManyAsync"/>, in their order.</summary>
/// <param name="Messages">The result of each message. A message succeeds when it is in the queues of its subscribers.</param>
/// <param name="DroppedMessages">
/// Messages that the server dropped during the call because a subscriber's queue was full, counted once for each such subscriber. Messages of other publishers are
/// included, because the server does not report which call a dropped message came from.
/// </param>
public readonly record struct InjectManyReport(PublishManyReport Messages, long DroppedMessages);

/// <summary>The result of one message.</summary>
/// <param name="Outcome">What became of the message.</param>
/// <param name="ReasonCode">The answer of the broker or server; null when there is none.</param>
/// <param name="Reason">A human-readable reason; null after a success.</param>
/// <param name="Error">The exception of MQTTnet; null when there is none.</param>
public readonly record struct PublishManyResult(
    PublishManyOutcome Outcome, MqttClientPublishReasonCode? ReasonCode = null, string? Reason = null, Exception? Error = null)
{
    /// <summary>True when the message succeeded, even if no one subscribes.</summary>
    public bool IsSuccess => Outcome == PublishManyOutcome.Succeeded;
}

/// <summary>What became of a message.</summary>
public enum PublishManyOutcome
{
    /// <summary>The broker has acknowledged the message (QoS 1 and 2), the client has written it (QoS 0), or the server has queued it for its subscribers.</summary>
    Succeeded = 0,

    /// <summary>The message is invalid, or the broker or server refused it. Another attempt would be refused too.</summary>
    Refused = 1,

    /// <summary>The publish failed, for example because the connection was lost. The message may or may not have arrived; another attempt may succeed.</summary>
    Failed = 2,

    /// <summary>The publish was not started, because the client had lost its connection. The message has not arrived; another attempt may succeed.</summary>
    NotSent = 3,
}

/// <summary>Collects the results of one call. Used by one thread at a time.</summary>
internal sealed class PublishManyResults(int count)
{
    private byte[]? _reasonCodes;
    private Dictionary<int, PublishManyResult>? _failures;

    public PublishManyReport ToReport() => new(count, _reasonCodes, _failures);

    public void Answer(int index, MqttClientPublishReasonCode code, string? reason)
    {
        if (code == MqttClientPublishReasonCode.Success)
            return;
        if (code < MqttClientPublishReasonCode.UnspecifiedError)
        {
            (_reasonCodes ??= new byte[count])[index] = (byte)code;
            return;
        }

        var outcome = ReasonTable.IsTransient((int)code) ? PublishManyOutcome.Failed : PublishManyOutcome.Refused;
        Fail(index, new PublishManyResult(outcome, code, string.IsNullOrEmpty(reason) ? $"The answer was {code} ({(int)code})." : reason));
    }

    public void Refuse(int index, string reason) => Fail(index, new PublishManyResult(PublishManyOutcome.Refused, Reason: reason));

    public void Fail(int index, PublishManyResult result) => (_failures ??= [])[index] = result;
}
