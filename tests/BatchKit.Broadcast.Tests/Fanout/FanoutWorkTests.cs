using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Fanout;

public sealed class FanoutWorkTests
{
    [Fact]
    public async Task A_run_that_fails_half_way_counts_as_accepted_what_it_counts_as_sent()
    {
        await using var transport = new BroadcastTransport();
        var counters = new DeliveryCounters();
        var work = new FanoutWork(transport.Limits, counters);
        var clients = Enumerable.Range(0, 16).Select(_ => new FakeClient(transport)).ToArray();

        // Connections are prefetched by sixteen, so these get the batch before the run fails.
        work.Staged.StageOnly(Deliveries.ToGroup("hall", "hello"), [.. clients.Select(client => client.Connection), null!]);
        Assert.Throws<NullReferenceException>(work.RunInline);

        Assert.All(clients, client => Assert.Equal("hello", client.Text));
        Assert.Equal((new Amount(16, 80), counters.Attempted), (counters.Attempted, counters[DeliveryOutcome.Sent]));
    }
}
