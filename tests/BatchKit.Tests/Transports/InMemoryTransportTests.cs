using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class InMemoryTransportTests : TransportSpecification
{
    protected override TransportPromises Promises =>
        TransportPromises.Ordered | TransportPromises.Once | TransportPromises.AcknowledgesAfterNextHop;

    [Fact]
    public void It_declares_what_its_next_hop_declares()
    {
        var inline = new InMemoryTransport(new CollectingTransport(sendsWithoutBlocking: true, maxMessageBytes: 1234));
        var blocking = new InMemoryTransport(new CollectingTransport(sendsWithoutBlocking: false));

        Assert.True(((IBatchTransport)inline).SendsWithoutBlocking);
        Assert.Equal(1234, ((IBatchTransport)inline).MaxMessageBytes);
        Assert.False(((IBatchTransport)blocking).SendsWithoutBlocking);
    }

    [Fact]
    public async Task Sends_side_by_side_reach_the_next_hop_one_at_a_time()
    {
        var stalled = NextHop.Stall();
        var sends = Enumerable.Range(0, 10).Select(partition => SendAsync(Some.Batch(Connection(), Some.Producer(partition: partition), 1, "text"))).ToArray();
        await stalled.EnteredAsync();

        stalled.Release();
        await Task.WhenAll(sends);

        Assert.Equal(10, Collected.MessageCount);
        Assert.Equal(1, NextHop.MostSendsUnderWay);
    }

    [Fact]
    public async Task A_send_may_have_batches_of_several_producers()
    {
        var (first, second) = (Some.Producer(), Some.Producer());
        MessageBatch[] batches =
        [
            Some.Batch(Connection(), first, 7, "a"), Some.Batch(Connection(), first, 8, "b"), Some.Batch(Connection(), second, 1, "c"), Some.Batch(Connection(), first, 9, "d"),
        ];

        await SendAsync(batches);
        await SendAsync(batches);

        Assert.Equal(["a", "b", "c", "d"], Collected.Texts);
    }

    [Fact]
    public async Task Disposing_waits_for_the_send_under_way()
    {
        var stalled = NextHop.Stall();
        var sending = SendAsync(Some.Batch(Connection(), Some.Producer(), 1, "under way"));
        await stalled.EnteredAsync();

        var disposing = Harness.DisposeTransportAsync().AsTask();
        var disposedEarly = disposing.IsCompleted;
        stalled.Release();
        await disposing.WithinDeadline();

        Assert.False(disposedEarly);
        Assert.Equal(["under way"], Collected.Texts);
        await sending;
    }

    protected override ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) =>
        ValueTask.FromResult<TransportHarness>(new InMemoryHarness(nextHop, Surroundings));

    /// <summary>The transport is its own receiver.</summary>
    private sealed class InMemoryHarness : TransportHarness
    {
        private readonly BatchReceiverOptions _options = new() { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        private readonly InMemoryTransport _transport;

        public InMemoryHarness(IBatchTransport nextHop, Surroundings surroundings) =>
            _transport = new InMemoryTransport(nextHop, _options, surroundings.TimeProvider, surroundings.CreateLogger<BatchReceiver>());

        public override IBatchTransport Transport => _transport;

        public override IReadOnlyList<object> Options => [_options];

        public override ValueTask DisposeTransportAsync() => _transport.DisposeAsync();

        public override ValueTask DisposeAsync() => _transport.DisposeAsync();
    }
}
