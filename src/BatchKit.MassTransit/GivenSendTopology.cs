using MassTransit;
using MassTransit.RabbitMqTransport;
using MassTransit.RabbitMqTransport.Topology;

namespace BatchKit.MassTransit;

/// <summary>Gives every address settings that declare nothing.</summary>
internal sealed class GivenSendTopology() : RabbitMqSendTopology(RabbitMqEntityNameValidator.Validator), IRabbitMqSendTopologyConfigurator
{
    SendSettings IRabbitMqSendTopology.GetSendSettings(RabbitMqEndpointAddress address) => new GivenSendSettings(address);
}
