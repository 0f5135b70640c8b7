using BatchKit.Mqtt;

namespace SensorHub.Measuring;

/// <summary>All counters at one moment, since the start.</summary>
internal sealed record HubSnapshot
{
    public required TimeSpan At { get; init; }

    public required long Written { get; init; }

    public required long Skipped { get; init; }

    public required long Arrived { get; init; }

    public required long Doubled { get; init; }

    public required OutputStatistics Output { get; init; }

    public required MqttTransportStatistics Mqtt { get; init; }

    public required long[] Latencies { get; init; }

    /// <summary>What the broker acknowledged, or at QoS 0 took from the socket, and the subscriber does not have yet.</summary>
    public long Missing => Math.Max(0, Mqtt.AcknowledgedMessages - Arrived);

    /// <summary>What was written and the broker has not acknowledged: it is under way, or was dropped.</summary>
    public long Unacknowledged => Written - Mqtt.AcknowledgedMessages;

    /// <summary>What the buffer dropped to make room, or because the time to stop was over, or could not deliver.</summary>
    public long Dropped => Output.DroppedMessages + Output.FailedMessages;
}
