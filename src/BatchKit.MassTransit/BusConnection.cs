using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>A bus that frames go over, whoever owns it.</summary>
internal class BusConnection(IBus bus, MassTransitOptions options)
{
    public IBus Bus { get; } = bus;

    public MassTransitOptions Options { get; } = options;

    public BusTopology Topology { get; } = BusTopology.For(bus, options);

    /// <summary>Sends one frame; completes with the broker's confirm.</summary>
    /// <exception cref="MessageReturnedException">The node is gone.</exception>
    public virtual async Task SendAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        // Asked for each time: MassTransit caches endpoints, and disposes them when they have been idle.
        var endpoint = await (node is { } number ? Topology.GetDirectAsync(Bus, number) : Topology.GetFanOutAsync(Bus)).ConfigureAwait(false);
        await endpoint.Send(new BatchEnvelope(frame), new FramePipe(node, Options.Durable), cancellationToken).ConfigureAwait(false);
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
