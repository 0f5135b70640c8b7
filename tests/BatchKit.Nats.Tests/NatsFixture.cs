using BatchKit.TestServers.Nats;

[assembly: AssemblyFixture(typeof(BatchKit.Nats.Tests.NatsFixture))]

namespace BatchKit.Nats.Tests;

/// <summary>The NATS server that tests share.</summary>
public sealed class NatsFixture()
    : SharedServer<NatsServer>(static () => NatsServer.WhyMissing, NatsServer.ConnectOrStartAsync, NatsServer.AddressVariable, static server => $"{server.Address}")
{
    /// <summary>Options with names at the server that no other test uses.</summary>
    public async Task<NatsOptions> NewOptionsAsync() => OptionsFor((await GetAsync()).Address);

    /// <inheritdoc cref="NewOptionsAsync"/>
    public static NatsOptions OptionsFor(Uri server) => new() { Url = $"{server}", Prefix = $"test-{Guid.NewGuid():N}", MaxStreamBytes = 64 * 1024 * 1024 };
}
