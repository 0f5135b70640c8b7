using MassTransit;
using MassTransit.RabbitMqTransport;
using MassTransit.RabbitMqTransport.Middleware;

namespace BatchKit.MassTransit;

/// <summary>Makes a receive endpoint believe that its queue is declared: MassTransit declares once per channel, and this comes first.</summary>
internal sealed class GivenQueueFilter(ReceiveSettings settings) : IFilter<ChannelContext>
{
    public async Task Send(ChannelContext context, IPipe<ChannelContext> next)
    {
        await context.OneTimeSetup<ConfigureTopologyContext<ReceiveSettings>>(() =>
        {
            context.GetOrAddPayload(() => settings);
            return Task.CompletedTask;
        }).ConfigureAwait(false);
        await next.Send(context).ConfigureAwait(false);
    }

    public void Probe(ProbeContext context) => context.CreateFilterScope("givenQueue");
}
