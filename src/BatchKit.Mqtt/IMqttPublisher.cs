namespace BatchKit.Mqtt;

/// <summary>Publishes many messages at once, without buffering scopes. <see cref="MqttTransport"/> implements it; tests may use their own implementation.</summary>
/// <remarks>Thread-safe. Messages are sent in the order of the calls, and within a call in the order of its messages.</remarks>
public interface IMqttPublisher
{
    /// <summary>Writes the messages as packets, with as many in one write as fit, and completes when each message has its result.</summary>
    /// <remarks>
    /// A message that can't be sent (a bad topic, too large, QoS 2) gets a result with the reason; the others are still sent. Unacknowledged messages are sent again
    /// after a lost connection.
    /// </remarks>
    /// <param name="messages">The messages; they and their memory must stay unchanged until the task has ended.</param>
    /// <param name="cancellationToken">Gives up the messages that have no result yet. They may or may not have reached the broker.</param>
    /// <exception cref="IOException">
    /// The broker refused the connection, or there was none within <see cref="MqttOptions.PublishTimeout"/>. Messages without an answer may or may not have arrived.
    /// </exception>
    /// <exception cref="TimeoutException">The broker did not acknowledge everything within <see cref="MqttOptions.PublishTimeout"/>.</exception>
    /// <exception cref="OperationCanceledException">The call was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The publisher is disposed.</exception>
    ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default);
}

/// <summary>The results of the messages of one <see cref="IMqttPublisher.PublishManyAsync"/>.</summary>
/// <remarks>It allocates nothing when every message is a plain success.</remarks>
public readonly struct MqttPublishReport
{
    // Null when every message is a plain success. One byte for each message, because a broker without subscribers answers each message with a code other than Success.
    private readonly byte[]? _reasonCodes;
    private readonly Dictionary<int, string>? _reasons;

    internal MqttPublishReport(int count, byte[]? reasonCodes, Dictionary<int, string>? reasons)
    {
        Count = count;
        _reasonCodes = reasonCodes;
        _reasons = reasons;
    }

    /// <summary>The number of messages.</summary>
    public int Count { get; }

    /// <summary>True when every message succeeded.</summary>
    public bool IsSuccess => _reasonCodes is null || !_reasonCodes.AsSpan().ContainsAnyInRange((byte)MqttReasonCode.UnspecifiedError, byte.MaxValue);

    /// <summary>One message's result.</summary>
    /// <param name="index">The zero-based index of the message.</param>
    /// <exception cref="ArgumentOutOfRangeException">The index is below zero, or not below <see cref="Count"/>.</exception>
    public MqttPublishResult this[int index]
    {
        get
        {
            ArgumentOutOfRangeException.ThrowIfNegative(index);
            ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(index, Count);
            return _reasonCodes is null ? default : new MqttPublishResult((MqttReasonCode)_reasonCodes[index], _reasons?.GetValueOrDefault(index));
        }
    }

    /// <summary>Creates a report from results, for your own implementation of <see cref="IMqttPublisher"/>.</summary>
    /// <param name="results">One for each message.</param>
    public static MqttPublishReport Create(params ReadOnlySpan<MqttPublishResult> results)
    {
        var reasonCodes = new byte[results.Length];
        var reasons = new Dictionary<int, string>();
        for (var index = 0; index < results.Length; index++)
        {
            reasonCodes[index] = (byte)results[index].ReasonCode;
            if (results[index].Reason is { } reason)
                reasons.Add(index, reason);
        }

        return new MqttPublishReport(results.Length, reasonCodes, reasons);
    }
}

/// <summary>The result of one published message.</summary>
/// <param name="ReasonCode">The broker's answer, or the reason why this client did not send the message. A QoS 0 message succeeds when it is written.</param>
/// <param name="Reason">A human-readable reason; null after a success.</param>
public readonly record struct MqttPublishResult(MqttReasonCode ReasonCode, string? Reason = null)
{
    /// <summary>True when the broker has acknowledged the message (QoS 1) or it was written (QoS 0), even if no one subscribes.</summary>
    public bool IsSuccess => ReasonCode < MqttReasonCode.UnspecifiedError;
}

/// <summary>One message for <see cref="IMqttPublisher.PublishManyAsync"/>.</summary>
/// <remarks>
/// The caller owns its memory and must not change it until the publish has ended. MQTT 3.1.1 carries only topic, payload, QoS and retain; the other properties are
/// not sent.
/// </remarks>
/// <param name="Topic">The topic to publish to: no wildcards, at most 65,535 bytes of UTF-8.</param>
/// <param name="Payload">The payload.</param>
public readonly record struct MqttMessage(string Topic, ReadOnlyMemory<byte> Payload)
{
    /// <summary>How the message is delivered. Null, the default, takes it from <see cref="MqttOptions.TopicRules"/>, then from <see cref="MqttOptions.QualityOfService"/>.</summary>
    public MqttQualityOfService? QualityOfService { get; init; }

    /// <summary>
    /// Whether the broker keeps the message for later subscribers. Null, the default, takes it from <see cref="MqttOptions.TopicRules"/>; without a matching rule it
    /// is not kept.
    /// </summary>
    public bool? Retain { get; init; }

    /// <summary>
    /// The time after which the broker may drop the message, in whole seconds. Null, the default, takes it from <see cref="MqttOptions.TopicRules"/>; without a
    /// matching rule it never expires. Zero means never, whatever the rules say.
    /// </summary>
    public TimeSpan? Expiry { get; init; }

    /// <summary>The user properties, in order; none by default (MQTT 5, section 3.3.2.3.7).</summary>
    public ReadOnlyMemory<KeyValuePair<string, string>> UserProperties { get; init; }

    /// <summary>The payload's media type; none by default.</summary>
    public string? ContentType { get; init; }

    /// <summary>The topic that an answer should go to; none by default.</summary>
    public string? ResponseTopic { get; init; }

    /// <summary>The data that an answer should carry so that it can be matched to this message; none by default.</summary>
    public ReadOnlyMemory<byte> CorrelationData { get; init; }
}

/// <summary>How a message is delivered (MQTT 5, section 4.3).</summary>
public enum MqttQualityOfService
{
    /// <summary>QoS 0: written once and not acknowledged. Messages in flight are lost with the connection.</summary>
    AtMostOnce = 0,

    /// <summary>QoS 1: sent again until the broker acknowledges it.</summary>
    AtLeastOnce = 1,

    /// <summary>QoS 2: not supported. A message that asks for it is refused.</summary>
    ExactlyOnce = 2,
}
