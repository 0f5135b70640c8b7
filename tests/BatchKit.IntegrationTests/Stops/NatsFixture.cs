using BatchKit.TestServers.Nats;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.Stops.NatsFixture))]

namespace BatchKit.IntegrationTests.Stops;

/// <summary>The NATS server that tests share.</summary>
public sealed class NatsFixture()
    : SharedServer<NatsServer>(static () => NatsServer.WhyMissing, NatsServer.ConnectOrStartAsync, NatsServer.AddressVariable, static server => $"{server.Address}");
