namespace BatchKit.Benchmarks.Publishers;

/// <summary>The ways to publish that are compared.</summary>
internal enum PublishWay
{
    /// <summary>Packets that were encoded before, written raw in the broker's window.</summary>
    Floor = 0,

    /// <summary>BatchKit's publisher with one message at a time: what a program does that awaits each.</summary>
    Awaited = 1,
    PublishMany = 2,
    Scope = 3,

    /// <summary>A scope over 1000 topics.</summary>
    ScopeOverTopics = 4,

    /// <summary>Eight threads that write without a scope.</summary>
    Unscoped = 5,

    /// <summary>The program <c>mosquitto_pub -l</c>, which reads its messages from its standard input.</summary>
    MosquittoPub = 6,

    /// <summary>MQTTnet's client, one message at a time.</summary>
    MqttNetAwaited = 7,

    /// <summary>The same with 1000 messages under way.</summary>
    MqttNetPipelined = 8,

    /// <summary>The same client under BatchKit.</summary>
    OverMqttNet = 9,

    /// <summary>The same client, whose own messages BatchKit publishes, 1000 a call.</summary>
    MqttNetPublishMany = 10,

    /// <summary>MQTTnet's server in the process that has the messages, which are injected one at a time.</summary>
    MqttNetInjectLoop = 11,

    /// <summary>The same server under BatchKit.</summary>
    MqttNetInjectScope = 12,

    /// <summary>The same server, whose own messages BatchKit injects, 1000 a call.</summary>
    MqttNetInjectMany = 13,

    /// <summary>The same, and the server listens with BatchKit's adapter, so that packets for a client leave together.</summary>
    MqttNetInjectManyBatched = 14,
}
