using MassTransit;
using MassTransit.Configuration;
using MassTransit.RabbitMqTransport.Configuration;

namespace BatchKit.MassTransit;

/// <summary>MassTransit's RabbitMQ topology that declares nothing when it sends.</summary>
internal sealed class GivenTopology(IMessageTopologyConfigurator messageTopology)
    : RabbitMqTopologyConfiguration(messageTopology), IRabbitMqTopologyConfiguration
{
    private readonly GivenSendTopology _send = new();

    IRabbitMqSendTopologyConfigurator IRabbitMqTopologyConfiguration.Send => _send;

    ISendTopologyConfigurator ITopologyConfiguration.Send => _send;
}
