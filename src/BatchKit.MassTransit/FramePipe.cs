using System.Globalization;
using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Makes one send of MassTransit a frame's: its serializer, its route, whether it may be lost.</summary>
internal sealed class FramePipe(BusTopology topology, int? node, bool durable) : IPipe<SendContext<BatchEnvelope>>
{
    public Task Send(SendContext<BatchEnvelope> context)
    {
        context.Serializer = FrameSerializer.Shared;
        context.Durable = durable;
        topology.Stamp(context);
        if (node is not { } number)
            return Task.CompletedTask;

        if (context.TryGetPayload(out RoutingKeySendContext? routed))
            routed.RoutingKey = number.ToString(CultureInfo.InvariantCulture);
        // A frame that no queue takes comes back as MessageReturnedException. Not for a frame to all: nobody there is success.
        if (context.TryGetPayload(out RabbitMqSendContext? rabbit))
            rabbit.Mandatory = true;
        return Task.CompletedTask;
    }

    public void Probe(ProbeContext context) => context.CreateScope("batchkit");
}
