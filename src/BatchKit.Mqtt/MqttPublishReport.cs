namespace BatchKit.Mqtt;

/// <summary>What became of each message of one <see cref="IMqttPublisher.PublishManyAsync"/>.</summary>
/// <remarks>A value that needs no memory when every message has simply succeeded.</remarks>
public readonly struct MqttPublishReport
{
    // Null when each is a plain success.
    private readonly MqttPublishResult[]? _results;

    internal MqttPublishReport(int count, MqttPublishResult[]? results)
    {
        Count = count;
        _results = results;
    }

    /// <summary>How many messages there were.</summary>
    public int Count { get; }

    /// <summary>True when every message succeeded.</summary>
    public bool IsSuccess => _results is null || Array.TrueForAll(_results, static result => result.IsSuccess);

    /// <summary>One message's result.</summary>
    /// <param name="index">The message's place, from 0.</param>
    /// <exception cref="ArgumentOutOfRangeException">There is no such message.</exception>
    public MqttPublishResult this[int index]
    {
        get
        {
            ArgumentOutOfRangeException.ThrowIfNegative(index);
            ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(index, Count);
            return _results is null ? default : _results[index];
        }
    }
}
