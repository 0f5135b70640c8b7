using BatchKit.Mqtt;
using Microsoft.Extensions.DependencyInjection;

namespace SensorHub.Hosting;

/// <summary>How the two connections are. Transport and receiver are keyed by their buffer's name, which is empty here.</summary>
internal sealed class HubConnections([FromKeyedServices("")] MqttTransport transport, [FromKeyedServices("")] MqttReceiver receiver)
{
    /// <summary>Why the subscriber receives nothing; null while it does.</summary>
    public string? SubscriberFault => receiver.Fault;

    /// <summary>What is wrong with either, in one sentence; null when all is well. A publisher that has nothing to send yet has no fault.</summary>
    public string? Fault => (transport.Fault, receiver.Fault) switch
    {
        (null, null) => null,
        ({ } publisher, null) => $"Publisher: {publisher}",
        (null, { } subscriber) => $"Subscriber: {subscriber}",
        ({ } both, _) => both,
    };
}
