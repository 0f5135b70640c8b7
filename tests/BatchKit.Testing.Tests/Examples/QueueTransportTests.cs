using System.Threading.Channels;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.Testing.Tests.Examples;

public sealed class QueueTransportTests : TransportSpecification
{
    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once;

    protected override ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) => new(new QueueHarness(nextHop, Surroundings));
}

internal sealed class QueueHarness : TransportHarness
{
    private readonly QueueTransport _transport;
    private readonly QueueReceiver _receiver;

    public QueueHarness(IBatchTransport nextHop, Surroundings surroundings)
    {
        var queue = Channel.CreateUnbounded<byte[]>();
        var options = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1) };
        _transport = new QueueTransport(queue.Writer);
        _receiver = new QueueReceiver(queue.Reader, new BatchReceiver(nextHop, options, surroundings.TimeProvider, surroundings.CreateLogger<BatchReceiver>()));
    }

    public override IBatchTransport Transport => _transport;

    public override ValueTask DisposeTransportAsync()
    {
        _transport.Dispose();
        return default;
    }

    public override async ValueTask DisposeAsync()
    {
        _transport.Dispose();
        await _receiver.DisposeAsync();
    }
}
