using System.Globalization;
using MassTransit;
using MassTransit.Transports.Fabric;

namespace BatchKit.MassTransit;

/// <summary>MassTransit's in-memory transport: the same two exchanges. What is bound to nothing is dropped, so an own bus asks <see cref="InMemoryLane"/> first.</summary>
internal sealed class InMemoryTopology : BusTopology
{
    private readonly Uri _direct;
    private readonly Uri _fanOut;

    public InMemoryTopology(MassTransitOptions options)
        : base(options)
    {
        _direct = new Uri($"exchange:{DirectName}?type={nameof(ExchangeType.Direct)}");
        _fanOut = new Uri($"exchange:{FanOutName}?type={nameof(ExchangeType.FanOut)}");
    }

    public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => bus.GetSendEndpoint(_direct);

    public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => bus.GetSendEndpoint(_fanOut);

    public override void Bind(IReceiveEndpointConfigurator endpoint, int node)
    {
        var queue = (IInMemoryReceiveEndpointConfigurator)endpoint;
        queue.Bind(DirectName, ExchangeType.Direct, node.ToString(CultureInfo.InvariantCulture));
        queue.Bind(FanOutName, ExchangeType.FanOut);
    }
}
