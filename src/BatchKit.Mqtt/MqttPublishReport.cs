namespace BatchKit.Mqtt;

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
