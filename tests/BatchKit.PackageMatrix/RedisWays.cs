using Microsoft.Extensions.DependencyInjection;
using StackExchange.Redis;

namespace BatchKit.PackageMatrix;

internal static class RedisWays
{
    public static IEnumerable<Way> All(Servers servers) => [Own(servers), Applications(servers)];

    public static string AddressOf(Servers servers) => $"{servers.Redis.Address.Host}:{servers.Redis.Address.Port}";

    private static Way Own(Servers servers)
    {
        var prefix = Ways.Name();
        return new Way("Redis, its own connection", Ways.Connection, services => Register(services, AddressOf(servers), prefix));
    }

    private static Way Applications(Servers servers)
    {
        var prefix = Ways.Name();
        ConnectionMultiplexer? connection = null;
        return new Way("Redis, the application's connection", Ways.Connection, services =>
        {
            services.AddSingleton<IConnectionMultiplexer>(connection!);
            Register(services, configuration: null, prefix);
        })
        {
            BeforeAsync = async () => connection = await ConnectionMultiplexer.ConnectAsync(AddressOf(servers)),
            AfterAsync = async () => await connection!.DisposeAsync(),
        };
    }

    private static void Register(IServiceCollection services, string? configuration, string prefix) => services
        .AddBatchKit(static options => options.Node = Ways.Node)
        .UseRedis(options => (options.Configuration, options.Prefix) = (configuration, prefix))
        .ReceiveFromRedis<ArrivalHandler>();
}
