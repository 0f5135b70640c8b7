namespace BatchKit.Mqtt.Publishing;

/// <summary>What a queue counts. Guarded by its lock.</summary>
internal struct PublishCounters
{
    public long Accepted;
    public long Acknowledged;
    public long Refused;
    public long Lost;
    public long Resent;
    public long Connects;

    public readonly MqttTransportStatistics With(PublishWindow window) => new()
    {
        AcceptedMessages = Accepted,
        AcknowledgedMessages = Acknowledged,
        RefusedMessages = Refused,
        LostMessages = Lost,
        ResentMessages = Resent,
        Connects = Connects,
        Window = window.Quota,
        InFlightMessages = window.Unacknowledged,
    };
}
