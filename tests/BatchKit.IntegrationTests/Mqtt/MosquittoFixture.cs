using BatchKit.TestServers.Mosquitto;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.Mqtt.MosquittoFixture))]

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>The broker that tests share unless they break it.</summary>
/// <remarks>It queues without limit: by default it drops past a thousand messages for one client, in silence.</remarks>
public sealed class MosquittoFixture()
    : SharedServer<MosquittoServer>(
        static () => MosquittoServer.WhyMissing, static () => MosquittoServer.ConnectOrStartAsync(new MosquittoServerOptions { MaxQueued = 0 }), MosquittoServer.AddressVariable, static server => $"{server.Address}");
