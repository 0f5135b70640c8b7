namespace BatchKit.Mqtt.Connections;

/// <summary>Where a broker is, and how it is spoken to.</summary>
internal sealed class BrokerAddress
{
    private const int MqttPort = 1883;
    private const int MqttTlsPort = 8883;

    public BrokerAddress(Uri server)
    {
        UsesTls = server.Scheme is "mqtts" or "wss";
        UsesWebSocket = server.Scheme is "ws" or "wss";
        Host = server.IdnHost.Trim('[', ']');
        Port = server.Port > 0 ? server.Port : UsesTls ? MqttTlsPort : MqttPort;
        // From its parts, so that whatever else the address holds is in no log.
        var shownHost = Host.Contains(':', StringComparison.Ordinal) ? $"[{Host}]" : Host;
        Target = $"{server.Scheme}://{shownHost}:{Port}";
        WebSocketUri = new UriBuilder(UsesTls ? "wss" : "ws", Host, Port, server.AbsolutePath, server.Query).Uri;
    }

    public bool UsesTls { get; }

    public bool UsesWebSocket { get; }

    public string Host { get; }

    public int Port { get; }

    /// <summary>For a person.</summary>
    public string Target { get; }

    public Uri WebSocketUri { get; }
}
