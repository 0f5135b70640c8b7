using Microsoft.Extensions.DependencyInjection;
using NATS.Client.Core;

namespace BatchKit.PackageMatrix;

internal static class NatsWays
{
    public static IEnumerable<Way> All(Servers servers) => [Own(servers), Applications(servers)];

    private static Way Own(Servers servers)
    {
        var prefix = Ways.Name();
        return new Way("NATS, its own connection", Ways.Connection, services => Register(services, $"{servers.Nats.Address}", prefix));
    }

    private static Way Applications(Servers servers)
    {
        var prefix = Ways.Name();
        NatsConnection? connection = null;
        return new Way("NATS, the application's connection", Ways.Connection, services =>
        {
            services.AddSingleton<INatsConnection>(connection!);
            Register(services, url: null, prefix);
        })
        {
            BeforeAsync = () =>
            {
                connection = new NatsConnection(new NatsOpts { Url = $"{servers.Nats.Address}" });
                return Task.CompletedTask;
            },
            AfterAsync = async () => await connection!.DisposeAsync(),
        };
    }

    private static void Register(IServiceCollection services, string? url, string prefix) => services
        .AddBatchKit(static options => options.Node = Ways.Node)
        .UseNats(options => (options.Url, options.Prefix, options.MaxStreamBytes) = (url, prefix, 64 * 1024 * 1024))
        .ReceiveFromNats<ArrivalHandler>();
}
