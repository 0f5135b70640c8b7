using BatchKit.TestServers.Redis;
using Microsoft.Extensions.DependencyInjection;

[assembly: AssemblyFixture(typeof(BatchKit.SignalR.Tests.Support.SharedRedis))]

namespace BatchKit.SignalR.Tests.Support;

/// <summary>The Redis server that tests share.</summary>
public sealed class SharedRedis()
    : SharedServer<RedisServer>(static () => RedisServer.WhyMissing, RedisServer.ConnectOrStartAsync, RedisServer.AddressVariable, static server => $"{server.Address}")
{
    /// <summary>Creates a backplane over channels that no other test uses; skips the test when the server is missing.</summary>
    public static async Task<Action<BatchKitBuilder>> CreateBackplaneAsync()
    {
        var shared = (await TestContext.Current.GetFixture<SharedRedis>())!;
        var address = (await shared.GetAsync()).Address;
        var prefix = $"test:{Guid.NewGuid():N}";
        return builder => builder
            .UseRedis(options => (options.Configuration, options.Prefix) = ($"{address.Host}:{address.Port}", prefix))
            .ReceiveFromRedis(static services => services.GetRequiredService<SignalRTransport>());
    }
}
