using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>
/// The buffer's own in-memory bus. Both ends are in this process, so it adds two things that MassTransit's in-memory transport lacks: it refuses output for an absent node, and limits the number of
/// frames that wait for the receiver.
/// </summary>
internal sealed class InMemoryConnection(IBus bus, MassTransitOptions options, ConnectionAge age)
    : BusConnection(bus, options, age), IDisposable
{
    private const int NoNode = -1;

    // One permit for each frame that may wait for the receiver.
    private readonly SemaphoreSlim _capacity = new(options.Prefetch, options.Prefetch);

    // Written by the receiver's start and stop, read by senders.
    private volatile int _receivingNode = NoNode;

    public override bool IsLostAtStop => true;

    public override bool IsStarted => true;

    public override async Task SendAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        var receivingNode = _receivingNode;
        if (receivingNode == NoNode || (node is { } number && number != receivingNode))
        {
            if (node is null)
                return;
            throw new MessageReturnedException($"No receiver in this process has the queue {Topology.GetQueueName(node.Value)}.");
        }

        await _capacity.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            await base.SendAsync(frame, node, cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            _capacity.Release();
            throw;
        }
    }

    public override void Attach(int node) => _receivingNode = node;

    public override async Task DrainAsync(CancellationToken cancellationToken)
    {
        _receivingNode = NoNode;
        // When no frame waits, all permits are free.
        var taken = 0;
        try
        {
            for (; taken < Options.Prefetch; taken++)
                await _capacity.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            if (taken > 0)
                _capacity.Release(taken);
        }
    }

    public override void Complete() => _capacity.Release();

    public void Dispose() => _capacity.Dispose();
}
