using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using StackExchange.Redis;

namespace BatchKit.Redis.Tests;

/// <summary>Starts nodes that send and receive over Redis, and reads what they have received.</summary>
internal static class RedisHosts
{
    public static CollectingTransport CollectedBy(IHost host) => host.Services.GetRequiredService<CollectingTransport>();

    public static async Task<HealthStatus> HealthOf(IHost host) =>
        (await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync(static check => check.Name == "batchkit-redis")).Status;

    public static async Task<IHost> StartAsync(RedisOptions options, int node, IConnectionMultiplexer? connection = null)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        if (connection is not null)
            builder.Services.AddSingleton(connection);
        builder.Services.AddSingleton<CollectingTransport>();
        builder.Services.AddBatchKit(buffer => buffer.Node = node)
            .UseRedis(redis => (redis.Configuration, redis.Prefix) = (options.Configuration, options.Prefix))
            .ReceiveFromRedis(static services => services.GetRequiredService<CollectingTransport>());
        var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }
}
