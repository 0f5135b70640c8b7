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

    /// <summary>Changes that the broker acknowledged (at QoS 0: that were written to the socket) and that have not arrived at the subscriber.</summary>
    public long Missing => Math.Max(0, Mqtt.AcknowledgedMessages - Arrived);

    /// <summary>Changes that were written and that the broker has not acknowledged: they are being sent, or were dropped.</summary>
    public long Unacknowledged => Written - Mqtt.AcknowledgedMessages;

    /// <summary>Changes that the buffer dropped because it was full or its time to stop had ended, and changes that it could not deliver.</summary>
    public long Dropped => Output.DroppedMessages + Output.FailedMessages;
}
