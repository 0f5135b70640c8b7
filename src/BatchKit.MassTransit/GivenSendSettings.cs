using MassTransit;
using MassTransit.RabbitMqTransport;
using MassTransit.RabbitMqTransport.Topology;

namespace BatchKit.MassTransit;

/// <summary>Settings of an exchange that exists.</summary>
internal sealed class GivenSendSettings(RabbitMqEndpointAddress address) : RabbitMqSendSettings(address), SendSettings
{
    BrokerTopology SendSettings.GetBrokerTopology() => new PublishEndpointBrokerTopologyBuilder().BuildBrokerTopology();
}
