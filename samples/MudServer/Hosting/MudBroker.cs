using BatchKit.MassTransit;
using BatchKit.RabbitMQ;

namespace MudServer.Hosting;

/// <summary>Sets the address of the broker in the options of either adapter.</summary>
internal static class MudBroker
{
    public static void Set(RabbitMqOptions rabbit, MudOptions options, int? destinationNode)
    {
        rabbit.Hosts = [$"{options.Broker.Host}:{options.Broker.Port}"];
        rabbit.UserName = options.Broker.UserName;
        rabbit.Password = options.Broker.Password;
        rabbit.VirtualHost = options.Broker.VirtualHost;
        rabbit.Prefix = options.Prefix;
        rabbit.DestinationNode = destinationNode;
    }

    public static void Set(MassTransitOptions bus, MudOptions options, int? destinationNode)
    {
        bus.Prefix = options.Prefix;
        bus.DestinationNode = destinationNode;
        if (options.UsesRabbitMq)
        {
            bus.RabbitMq = new MassTransitRabbitMqOptions
            {
                Hosts = [$"{options.Broker.Host}:{options.Broker.Port}"],
                UserName = options.Broker.UserName,
                Password = options.Broker.Password,
                VirtualHost = options.Broker.VirtualHost,
            };
        }
    }
}
