using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>An own in-memory bus. Both ends are here, so it can do what MassTransit's in-memory transport cannot: refuse, and wait for room.</summary>
internal sealed class InMemoryConnection(IBus bus, MassTransitOptions options, ConnectionAge age)
    : BusConnection(bus, options, age), IDisposable
{
    private readonly InMemoryLane _lane = new(options.Prefetch);

    public override bool IsLostAtStop => true;

    public override async Task SendAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        if (_lane.ReceivingNode is not { } receivingNode || (node is { } number && number != receivingNode))
        {
            if (node is null)
                return;
            throw new MessageReturnedException($"No receiver in this process has the queue {Topology.GetQueueName(node.Value)}.");
        }

        await _lane.EnterAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            await base.SendAsync(frame, node, cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            _lane.Leave();
            throw;
        }
    }

    public override void Attach(int node) => _lane.ReceivingNode = node;

    public override Task DrainAsync(CancellationToken cancellationToken)
    {
        _lane.ReceivingNode = null;
        return _lane.DrainAsync(cancellationToken);
    }

    public override void Complete() => _lane.Leave();

    public void Dispose() => _lane.Dispose();
}
