namespace BatchKit.Mqtt;

/// <summary>Who connects. Never logged, nor part of an error.</summary>
/// <param name="UserName">The user name; null sends none.</param>
/// <param name="Password">The password or token, in UTF-8; empty sends none.</param>
public sealed record MqttCredentials(string? UserName, ReadOnlyMemory<byte> Password)
{
    /// <summary>Without the secret.</summary>
    public override string ToString() => nameof(MqttCredentials);
}
