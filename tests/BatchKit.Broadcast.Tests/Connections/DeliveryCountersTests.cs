using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class DeliveryCountersTests
{
    [Fact]
    public void A_tally_is_added_by_outcome()
    {
        var (counters, tally) = (new DeliveryCounters(), default(DeliveryTally));
        tally.Attempt(new Amount(3, 300));
        tally.Settle(DeliveryOutcome.Sent, new Amount(2, 200));
        tally.Settle(DeliveryOutcome.Failed, new Amount(1, 100));

        counters.Add(tally);
        counters.Add(tally);

        Assert.Equal(new Amount(6, 600), counters.Attempted);
        Assert.Equal((new Amount(4, 400), new Amount(2, 200)), (counters[DeliveryOutcome.Sent], counters[DeliveryOutcome.Failed]));
        Assert.Equal(default, counters[DeliveryOutcome.DroppedOldest]);
    }

    [Fact]
    public async Task Nothing_is_lost_when_many_threads_add()
    {
        const int turns = 50_000;
        var counters = new DeliveryCounters();

        await Task.WhenAll(Enumerable.Range(0, 4).Select(_ => Task.Run(() =>
        {
            var tally = default(DeliveryTally);
            tally.Attempt(new Amount(1, 10));
            tally.Settle(DeliveryOutcome.DroppedNewest, new Amount(1, 10));
            for (var turn = 0; turn < turns; turn++)
                counters.Add(tally);
        }))).WithinDeadline();

        Assert.Equal(new Amount(4 * turns, 40 * turns), counters.Attempted);
        Assert.Equal(new Amount(4 * turns, 40 * turns), counters[DeliveryOutcome.DroppedNewest]);
    }
}
