namespace BatchKit.Mqtt.Connections;

/// <summary>How far an attempt to connect came.</summary>
internal enum ConnectStage
{
    Credentials,
    Network,
    Tls,
    WebSocket,
    Answer,
}
