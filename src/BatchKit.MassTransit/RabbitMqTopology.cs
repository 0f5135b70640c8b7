using System.Globalization;
using MassTransit;
using MassTransit.RabbitMqTransport.Configuration;
using ExchangeType = RabbitMQ.Client.ExchangeType;

namespace BatchKit.MassTransit;

/// <summary>RabbitMQ: a direct exchange with the node's number as the routing key, and a fan-out exchange.</summary>
internal sealed class RabbitMqTopology : BusTopology
{
    private readonly Uri _direct;
    private readonly Uri _fanOut;

    public RabbitMqTopology(MassTransitOptions options)
        : base(options)
    {
        // An exchange, not a queue: MassTransit declares the queue of a queue address on sending, and so would bring a gone node's back to life.
        var durable = options.Durable ? "true" : "false";
        _direct = new Uri($"exchange:{DirectName}?type={ExchangeType.Direct}&durable={durable}");
        _fanOut = new Uri($"exchange:{FanOutName}?type={ExchangeType.Fanout}&durable={durable}");
    }

    public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => bus.GetSendEndpoint(_direct);

    public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => bus.GetSendEndpoint(_fanOut);

    public override void Bind(IReceiveEndpointConfigurator endpoint, int node)
    {
        var queue = (IRabbitMqReceiveEndpointConfigurator)endpoint;
        queue.Durable = Options.Durable;
        queue.QueueExpiration = Options.QueueExpiry;
        // Two processes with one node number would share its frames and lose their order: the second waits instead.
        queue.SingleActiveConsumer = true;
        if (!Options.DeclareTopology)
        {
            var settings = ((IRabbitMqReceiveEndpointConfiguration)endpoint).Settings;
            queue.ConfigureChannel(channel => channel.UseFilter(new GivenQueueFilter(settings)));
            return;
        }

        queue.Bind(DirectName, binding =>
        {
            binding.ExchangeType = ExchangeType.Direct;
            binding.RoutingKey = node.ToString(CultureInfo.InvariantCulture);
            binding.Durable = Options.Durable;
        });
        queue.Bind(FanOutName, binding =>
        {
            binding.ExchangeType = ExchangeType.Fanout;
            binding.Durable = Options.Durable;
        });
    }
}
