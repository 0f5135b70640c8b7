using BatchKit.TestServers.Nats;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.Pages.Nats.NatsFixture))]

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>The NATS server that tests share.</summary>
public sealed class NatsFixture()
    : SharedServer<NatsServer>(static () => NatsServer.WhyMissing, NatsServer.ConnectOrStartAsync, NatsServer.AddressVariable, static server => $"{server.Address}");
