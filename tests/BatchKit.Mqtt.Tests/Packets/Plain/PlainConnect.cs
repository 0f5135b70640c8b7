namespace BatchKit.Mqtt.Tests.Packets.Plain;

/// <summary>What only a CONNECT says.</summary>
internal sealed record PlainConnect
{
    public required int Level { get; init; }

    public bool CleanStart { get; init; }

    public int KeepAlive { get; init; }

    public required string ClientId { get; init; }

    /// <summary>A PUBLISH's topic, payload, properties, and QoS and retain as its flags; null for none.</summary>
    public PlainPacket? Will { get; init; }

    public string? UserName { get; init; }

    public byte[]? Password { get; init; }

    public string Show() =>
        $"level {Level}, clean {CleanStart}, alive {KeepAlive}, client {ClientId}, will ({Will?.Show()}), user {UserName ?? "none"}, password {(Password is null ? "none" : Convert.ToHexString(Password))}";
}
