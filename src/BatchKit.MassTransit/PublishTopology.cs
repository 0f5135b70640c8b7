using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Any other bus: a node's queue by its short address, and MassTransit's own publishing of the message type for named destinations.</summary>
internal sealed class PublishTopology(MassTransitOptions options) : BusTopology(options)
{
    public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => bus.GetSendEndpoint(new Uri($"queue:{GetQueueName(node)}"));

    public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => bus.GetPublishSendEndpoint<BatchEnvelope>();

    public override void Bind(IReceiveEndpointConfigurator endpoint, int node) => endpoint.ConfigureConsumeTopology = true;
}
