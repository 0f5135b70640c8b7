using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Any other bus: a node's queue by its short address, and MassTransit's own publishing of the message type for named destinations.</summary>
internal sealed class PublishTopology(MassTransitOptions options) : BusTopology(options)
{
    // What is published reaches all that receive the type, whatever their prefix.
    private const string PrefixHeader = "BatchKit-Prefix";

    public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => bus.GetSendEndpoint(new Uri($"queue:{GetQueueName(node)}"));

    public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => bus.GetPublishSendEndpoint<BatchEnvelope>();

    public override void Bind(IReceiveEndpointConfigurator endpoint, int node) => endpoint.ConfigureConsumeTopology = true;

    public override void Stamp(SendContext context) => context.Headers.Set(PrefixHeader, Options.Prefix);

    public override bool IsOurs(ConsumeContext context) => context.Headers.Get<string>(PrefixHeader) == Options.Prefix;
}
