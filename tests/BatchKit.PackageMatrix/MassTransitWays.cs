using BatchKit.MassTransit;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.PackageMatrix;

internal static class MassTransitWays
{
    public static IEnumerable<Way> All(Servers servers)
    {
        var (own, applications) = (Ways.Name(), Ways.Name());
        yield return new Way("MassTransit, its own bus in memory", Ways.Connection, static services => Register(services, static _ => { }));
        yield return new Way("MassTransit, its own bus over RabbitMQ", Ways.Connection, services => Register(services, options =>
        {
            options.Prefix = own;
            options.RabbitMq = new MassTransitRabbitMqOptions { ConnectionString = servers.RabbitMq.Address.ToString() };
        }));
        yield return new Way("MassTransit, the application's bus over RabbitMQ", Ways.Connection, services =>
        {
            services.AddMassTransit(setup => setup.UsingRabbitMq((_, configure) => configure.Host(servers.RabbitMq.Address)));
            Register(services, options =>
            {
                options.Prefix = applications;
                options.Bus = static provider => provider.GetRequiredService<IBus>();
            });
        });
    }

    private static void Register(IServiceCollection services, Action<MassTransitOptions> configure) =>
        services.AddBatchKit(static options => options.Node = Ways.Node).UseMassTransit(configure).ReceiveFromMassTransit<ArrivalHandler>();
}
