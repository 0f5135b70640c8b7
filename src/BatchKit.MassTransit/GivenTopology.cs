using MassTransit;
using MassTransit.Configuration;
using MassTransit.RabbitMqTransport;
using MassTransit.RabbitMqTransport.Configuration;
using MassTransit.RabbitMqTransport.Middleware;
using MassTransit.RabbitMqTransport.Topology;

namespace BatchKit.MassTransit;

/// <summary>MassTransit's RabbitMQ topology for exchanges that already exist: a send declares nothing.</summary>
internal sealed class GivenTopology(IMessageTopologyConfigurator messageTopology)
    : RabbitMqTopologyConfiguration(messageTopology), IRabbitMqTopologyConfiguration
{
    private readonly GivenSendTopology _send = new();

    IRabbitMqSendTopologyConfigurator IRabbitMqTopologyConfiguration.Send => _send;

    ISendTopologyConfigurator ITopologyConfiguration.Send => _send;
}

/// <summary>Returns settings that declare nothing, for every address.</summary>
internal sealed class GivenSendTopology() : RabbitMqSendTopology(RabbitMqEntityNameValidator.Validator), IRabbitMqSendTopologyConfigurator
{
    SendSettings IRabbitMqSendTopology.GetSendSettings(RabbitMqEndpointAddress address) => new GivenSendSettings(address);
}

/// <summary>The settings of an exchange that exists.</summary>
internal sealed class GivenSendSettings(RabbitMqEndpointAddress address) : RabbitMqSendSettings(address), SendSettings
{
    BrokerTopology SendSettings.GetBrokerTopology() => new PublishEndpointBrokerTopologyBuilder().BuildBrokerTopology();
}

/// <summary>
/// Keeps a receive endpoint from declaring its queue: MassTransit declares once for each channel, and this filter marks that as done. The endpoint may consume only when the queue has no other
/// consumer. While an earlier connection's consumer holds frames, a queue without <c>x-single-active-consumer</c> would deliver later ones here, and the receiver would drop the earlier ones as repeats.
/// </summary>
internal sealed class GivenQueueFilter(ReceiveSettings settings) : IFilter<ChannelContext>
{
    public async Task Send(ChannelContext context, IPipe<ChannelContext> next)
    {
        var queue = await context.QueueDeclarePassive(settings.QueueName).ConfigureAwait(false);
        if (queue.ConsumerCount > 0)
            throw new RabbitMqConnectionException($"Queue {settings.QueueName} has {queue.ConsumerCount} other consumers. The receiver starts when they have ended, so that no frame overtakes one that they hold.");
        await context.OneTimeSetup<ConfigureTopologyContext<ReceiveSettings>>(() =>
        {
            context.GetOrAddPayload(() => settings);
            return Task.CompletedTask;
        }).ConfigureAwait(false);
        await next.Send(context).ConfigureAwait(false);
    }

    public void Probe(ProbeContext context) => context.CreateFilterScope("givenQueue");
}
