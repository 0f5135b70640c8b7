using System.Globalization;
using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>A bus that frames go over, whoever owns it.</summary>
internal class BusConnection(IBus bus, MassTransitOptions options, ConnectionAge age)
{
    public IBus Bus { get; } = bus;

    public MassTransitOptions Options { get; } = options;

    public BusTopology Topology { get; init; } = BusTopology.For(bus, options);

    /// <summary>How long the bus has been connected, as far as one can know.</summary>
    public ConnectionAge Age { get; } = age;

    /// <summary>A bus that the caller configured, starts and stops.</summary>
    public static BusConnection To(IBus bus, MassTransitOptions? options, TimeProvider? timeProvider)
    {
        ArgumentNullException.ThrowIfNull(bus);
        options ??= new MassTransitOptions();
        MassTransitOptionsValidator.ThrowIfInvalid(options);
        return new BusConnection(bus, options, new ConnectionAge(timeProvider ?? TimeProvider.System));
    }

    /// <summary>Sends one frame; completes with the broker's confirm.</summary>
    /// <exception cref="MessageReturnedException">The node is gone.</exception>
    public virtual async Task SendAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        // Asked for each time: MassTransit caches endpoints, and disposes them when they have been idle.
        var endpoint = await (node is { } number ? Topology.GetDirectAsync(Bus, number) : Topology.GetFanOutAsync(Bus)).ConfigureAwait(false);
        await endpoint.Send(new BatchEnvelope(frame), new FramePipe(Topology, node, Options.Durable), cancellationToken).ConfigureAwait(false);
    }

    /// <summary>True when this process's own stop ends what the bus holds, so that receivers must outlive senders.</summary>
    public virtual bool IsLostAtStop => false;

    /// <summary>Called when a node's receiver has bound its queue.</summary>
    public virtual void Attach(int node)
    {
    }

    /// <summary>Called before a receiver goes: takes no more, and waits for what it would lose.</summary>
    public virtual Task DrainAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>Called when a received frame was dealt with.</summary>
    public virtual void Complete()
    {
    }
}

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

/// <summary>When a bus last began to connect, or failed. Shortly after that receivers may still be on their way back.</summary>
internal sealed class ConnectionAge(TimeProvider timeProvider)
{
    private long _begun = timeProvider.GetTimestamp();

    public void Restart() => Volatile.Write(ref _begun, timeProvider.GetTimestamp());

    public bool IsBelow(TimeSpan limit) => timeProvider.GetElapsedTime(Volatile.Read(ref _begun)) < limit;
}
