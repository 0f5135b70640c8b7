namespace BatchKit.Mqtt;

/// <summary>The broker could not be reached, or said no. The message names it and the reason, and holds no secret.</summary>
/// <param name="message">What happened, for a person.</param>
/// <param name="reasonCode">The broker's answer where it gave one.</param>
/// <param name="innerException">The cause, where there is one.</param>
public sealed class MqttConnectException(string message, MqttReasonCode? reasonCode = null, Exception? innerException = null)
    : IOException(message, innerException)
{
    /// <summary>The broker's answer; null when it gave none.</summary>
    public MqttReasonCode? ReasonCode { get; } = reasonCode;

    /// <summary>True when trying again won't help until somebody changes a setting: wrong credentials, a certificate that is not trusted, a version not spoken.</summary>
    public bool IsRefusal { get; init; }
}
