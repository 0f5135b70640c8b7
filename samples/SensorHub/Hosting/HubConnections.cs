using BatchKit.Mqtt;
using Microsoft.Extensions.DependencyInjection;

namespace SensorHub.Hosting;

/// <summary>How the two connections and the buffer are, for the views. Transport and receiver are keyed by their buffer's name, which is empty here.</summary>
internal sealed class HubConnections([FromKeyedServices("")] MqttTransport transport, [FromKeyedServices("")] MqttReceiver receiver, OutputBuffer output)
{
    /// <summary>Why the publisher has no connection; null while it has one, or needs none yet.</summary>
    public string? PublisherFault => transport.Fault;

    /// <summary>Why the subscriber receives nothing; null while it does.</summary>
    public string? SubscriberFault => receiver.Fault;

    /// <summary>How the buffer is, as its health check says.</summary>
    public OutputHealth Health => output.GetHealth();
}
