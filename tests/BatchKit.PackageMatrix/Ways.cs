namespace BatchKit.PackageMatrix;

/// <summary>All ways to connect that the packages have.</summary>
internal static class Ways
{
    public const int Node = 1;

    public static readonly OutputHandle Connection = OutputHandle.Connection(Node, 7);

    public static IEnumerable<Way> All(Servers servers) =>
        [.. RabbitMqWays.All(servers), .. MassTransitWays.All(servers), .. MqttWays.All(servers), .. PostgresWays.All(servers), .. RedisWays.All(servers), .. NatsWays.All(servers), OpenTelemetryWay.Create(), BroadcastWay.Create(), SignalRWay.Create(servers)];

    /// <summary>A name that no other way uses on a broker.</summary>
    public static string Name() => $"matrix-{Guid.NewGuid():N}"[..20];
}
