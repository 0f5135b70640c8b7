using BatchKit.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;
using RabbitMQ.Client;

namespace BatchKit.PackageMatrix;

internal static class RabbitMqWays
{
    public static IEnumerable<Way> All(Servers servers) => [Own(servers), Applications(servers)];

    private static Way Own(Servers servers)
    {
        var prefix = Ways.Name();
        return new Way("RabbitMQ, its own connection", Ways.Connection, services => Register(services, options =>
        {
            options.Prefix = prefix;
            options.ConnectionString = servers.RabbitMq.Address.ToString();
        }));
    }

    private static Way Applications(Servers servers)
    {
        var prefix = Ways.Name();
        IConnection? connection = null;
        return new Way("RabbitMQ, the application's connection", Ways.Connection, services => Register(services, options =>
        {
            options.Prefix = prefix;
            options.Connection = connection;
        }))
        {
            BeforeAsync = async () => connection = await new ConnectionFactory { Uri = servers.RabbitMq.Address }.CreateConnectionAsync(),
            AfterAsync = async () => await connection!.DisposeAsync(),
        };
    }

    private static void Register(IServiceCollection services, Action<RabbitMqOptions> configure) =>
        services.AddBatchKit(static options => options.Node = Ways.Node).UseRabbitMq(configure).ReceiveFromRabbitMq<ArrivalHandler>();
}
