namespace BatchKit.Mqtt;

/// <summary>What became of one message of a publish.</summary>
/// <param name="ReasonCode">The broker's answer, or the code of what kept this side from sending it. A QoS 0 message succeeds when it is written.</param>
/// <param name="Reason">What is wrong, for a person; null after a success.</param>
public readonly record struct MqttPublishResult(MqttReasonCode ReasonCode, string? Reason = null)
{
    /// <summary>True when the broker has it (QoS 1) or it was written (QoS 0), whether anybody subscribes or not.</summary>
    public bool IsSuccess => ReasonCode < MqttReasonCode.UnspecifiedError;
}
