using BatchKit.MassTransit;
using BatchKit.RabbitMQ;

namespace MudServer.Hosting;

/// <summary>Sets the address of the broker in the options of either adapter.</summary>
internal static class MudBroker
{
    public static void Set(RabbitMqOptions rabbit, MudOptions options, int? destinationNode)
    {
        Set(rabbit, options.Broker);
        rabbit.Prefix = options.Prefix;
        rabbit.DestinationNode = destinationNode;
    }

    public static void Set(RabbitMqOptions rabbit, BrokerAddress address)
    {
        rabbit.Hosts = [$"{address.Host}:{address.Port}"];
        rabbit.UserName = address.UserName;
        rabbit.Password = address.Password;
        rabbit.VirtualHost = address.VirtualHost;
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
