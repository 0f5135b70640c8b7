using MQTTnet;

namespace BatchKit.MQTTnet;

public sealed partial class BatchedWriteClientAdapterFactory
{
    // Since MQTTnet 5.2 the options may provide another stream, such as a proxy's.
    static partial void FindStreamProvider(MqttClientTcpOptions options, ref bool hasProvider) => hasProvider = options.StreamProvider is not null;
}
