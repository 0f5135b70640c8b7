using MassTransit;
using MassTransit.Configuration;
using MassTransit.RabbitMqTransport.Configuration;

namespace BatchKit.MassTransit;

/// <summary>MassTransit's RabbitMQ bus configuration with a <see cref="ReconnectingHostConfiguration"/> in place of its own host.</summary>
internal sealed class ReconnectingBusConfiguration : RabbitMqBusConfiguration, IRabbitMqBusConfiguration
{
    private readonly ReconnectingHostConfiguration _host;

    public ReconnectingBusConfiguration(IRabbitMqTopologyConfiguration topologyConfiguration, TimeSpan reconnectDelay)
        : base(topologyConfiguration) =>
        _host = new ReconnectingHostConfiguration(this, topologyConfiguration, reconnectDelay);

    IRabbitMqHostConfiguration IRabbitMqBusConfiguration.HostConfiguration => _host;

    IHostConfiguration IBusConfiguration.HostConfiguration => _host;

    ConnectHandle IEndpointConfigurationObserverConnector.ConnectEndpointConfigurationObserver(IEndpointConfigurationObserver observer) =>
        _host.ConnectEndpointConfigurationObserver(observer);
}
