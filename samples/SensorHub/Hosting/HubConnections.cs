using BatchKit.Mqtt;
using Microsoft.Extensions.DependencyInjection;

namespace SensorHub.Hosting;

/// <summary>The state of the two connections. Transport and receiver are keyed by their buffer's name, which is empty here.</summary>
internal sealed class HubConnections([FromKeyedServices("")] MqttTransport transport, [FromKeyedServices("")] MqttReceiver receiver)
{
    /// <summary>Why the subscriber receives nothing; null while it does.</summary>
    public string? SubscriberFault => receiver.Fault;

    /// <summary>The fault of either connection, in one sentence; null when there is none. A publisher that has not sent anything yet has no fault.</summary>
    public string? Fault => (transport.Fault, receiver.Fault) switch
    {
        (null, null) => null,
        ({ } publisher, null) => $"Publisher: {publisher}",
        (null, { } subscriber) => $"Subscriber: {subscriber}",
        ({ } both, _) => both,
    };
}
