using BatchKit.TestServers.Redis;

[assembly: AssemblyFixture(typeof(BatchKit.Redis.Tests.RedisFixture))]

namespace BatchKit.Redis.Tests;

/// <summary>The Redis server that tests share.</summary>
public sealed class RedisFixture()
    : SharedServer<RedisServer>(static () => RedisServer.WhyMissing, RedisServer.ConnectOrStartAsync, RedisServer.AddressVariable, static server => $"{server.Address}")
{
    /// <summary>Options with channels that no other test uses.</summary>
    public async Task<RedisOptions> NewOptionsAsync(int? port = null)
    {
        var address = (await GetAsync()).Address;
        return new RedisOptions { Configuration = $"{address.Host}:{port ?? address.Port}", Prefix = $"test:{Guid.NewGuid():N}" };
    }
}
