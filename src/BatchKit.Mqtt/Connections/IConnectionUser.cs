namespace BatchKit.Mqtt.Connections;

/// <summary>What a link serves with connections, one after the other.</summary>
internal interface IConnectionUser
{
    /// <summary>Uses a connection until it ends.</summary>
    /// <returns>Why it ended, for a person.</returns>
    Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken);

    /// <summary>An attempt to connect failed; another follows after a pause.</summary>
    void ConnectFailed(MqttConnectException failure);
}
