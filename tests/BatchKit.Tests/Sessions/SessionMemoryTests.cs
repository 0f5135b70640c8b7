using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

public sealed class SessionMemoryTests
{
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(100)]
    [InlineData(1000)]
    public void A_history_takes_at_most_twice_the_memory_that_it_states(int payloadBytes)
    {
        var history = new SessionHistory(new SessionCounters());
        var before = GC.GetAllocatedBytesForCurrentThread();

        // Also what the growing ring leaves to the collector.
        for (var message = 0; message < 800; message++)
            history.Append(new SessionMessage(new byte[payloadBytes], header: null, latest: null));

        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, history.Bytes / 2, history.Bytes * 2);
    }

    [Fact]
    public void A_history_of_latest_values_takes_at_most_twice_the_memory_that_it_states()
    {
        var history = new SessionHistory(new SessionCounters());
        var handle = OutputHandle.Connection(node: 1, 1);
        var before = GC.GetAllocatedBytesForCurrentThread();

        for (var message = 0; message < 800; message++)
            history.Append(new SessionMessage(new byte[8], header: null, (handle, message)));

        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, history.Bytes / 2, history.Bytes * 2);
    }

    [Fact]
    public void A_history_that_was_acknowledged_states_no_memory_and_holds_none()
    {
        var counters = new SessionCounters();
        var history = new SessionHistory(counters);
        var message = new SessionMessage(new byte[100], header: null, latest: null);

        history.Append(message);
        history.Append(message);
        var shared = SessionCounters.Read(ref counters.Bytes);
        history.Acknowledge(2);

        Assert.Equal(message.Bytes + (2 * 32), shared);
        Assert.Equal((0, 0, 3), (history.Bytes, SessionCounters.Read(ref counters.Bytes), history.First));
    }
}
