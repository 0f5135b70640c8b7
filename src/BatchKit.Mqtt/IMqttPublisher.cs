namespace BatchKit.Mqtt;

/// <summary>Publishes many messages at once, for those who need no scopes. <see cref="MqttTransport"/> is one; tests may bring their own.</summary>
/// <remarks>Thread-safe. Messages leave in the order of the calls, and within a call in its order.</remarks>
public interface IMqttPublisher
{
    /// <summary>Writes the messages as packets, as many in one write as fit, and completes when each has its result.</summary>
    /// <remarks>One that can't be sent (a bad topic, too large, QoS 2) has a result that says so and keeps no other from being sent. Unacknowledged ones are sent again after a lost connection.</remarks>
    /// <param name="messages">The messages; they and their memory must stay unchanged until the task has ended.</param>
    /// <param name="cancellationToken">Gives up what has no result yet; the broker may or may not have it.</param>
    /// <exception cref="IOException">The broker refused the connection, or there was none within <see cref="MqttOptions.PublishTimeout"/>. What had no answer may or may not have arrived.</exception>
    /// <exception cref="TimeoutException">The broker did not acknowledge everything within <see cref="MqttOptions.PublishTimeout"/>.</exception>
    /// <exception cref="OperationCanceledException">It was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The publisher is disposed.</exception>
    ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default);
}

/// <summary>What became of each message of one <see cref="IMqttPublisher.PublishManyAsync"/>.</summary>
/// <remarks>A value that needs no memory when every message has simply succeeded.</remarks>
public readonly struct MqttPublishReport
{
    // Null when each is a plain success. A byte each, because a broker without subscribers says so for every message.
    private readonly byte[]? _reasonCodes;
    private readonly Dictionary<int, string>? _reasons;

    internal MqttPublishReport(int count, byte[]? reasonCodes, Dictionary<int, string>? reasons)
    {
        Count = count;
        _reasonCodes = reasonCodes;
        _reasons = reasons;
    }

    /// <summary>How many messages there were.</summary>
    public int Count { get; }

    /// <summary>True when every message succeeded.</summary>
    public bool IsSuccess => _reasonCodes is null || !_reasonCodes.AsSpan().ContainsAnyInRange((byte)MqttReasonCode.UnspecifiedError, byte.MaxValue);

    /// <summary>One message's result.</summary>
    /// <param name="index">The message's place, from 0.</param>
    /// <exception cref="ArgumentOutOfRangeException">There is no such message.</exception>
    public MqttPublishResult this[int index]
    {
        get
        {
            ArgumentOutOfRangeException.ThrowIfNegative(index);
            ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(index, Count);
            return _reasonCodes is null ? default : new MqttPublishResult((MqttReasonCode)_reasonCodes[index], _reasons?.GetValueOrDefault(index));
        }
    }

    /// <summary>Makes a report of these results, for publishers of your own.</summary>
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

/// <summary>What became of one message of a publish.</summary>
/// <param name="ReasonCode">The broker's answer, or the code of what kept this side from sending it. A QoS 0 message succeeds when it is written.</param>
/// <param name="Reason">What is wrong, for a person; null after a success.</param>
public readonly record struct MqttPublishResult(MqttReasonCode ReasonCode, string? Reason = null)
{
    /// <summary>True when the broker has it (QoS 1) or it was written (QoS 0), whether anybody subscribes or not.</summary>
    public bool IsSuccess => ReasonCode < MqttReasonCode.UnspecifiedError;
}
