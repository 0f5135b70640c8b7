using BatchKit.Testing;
using BatchKit.Tests.Support;
using BatchKit.TestSupport;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Dispatch;

/// <summary>A broker comes back with full queues, at whatever moment of the search for a bad batch: while only a part of a send is tried.</summary>
public sealed class BusyAfterOutageTests
{
    private const int Moments = 100;
    private const int RouteBroke = 9;

    private static readonly OutputBufferOptions Options = new() { RetryDelay = TimeSpan.FromMilliseconds(100), MaxRetryDelay = TimeSpan.FromSeconds(5) };

    private readonly OutputHandle _group = Some.Group();

    [Theory]
    [InlineData(2)]
    [InlineData(7)]
    [InlineData(64)]
    public Task What_was_left_out_for_a_full_node_waits_with_it_and_the_rest_arrives(int busy) => ForEachMomentAsync(async (outage, clock) =>
    {
        var queues = new FullQueues { IsAway = true };
        var log = new LogCollector();
        await using var buffer = new OutputBuffer(queues.CreateTransport(), Options, timeProvider: clock, logger: new Logger<OutputBuffer>(log));
        using (buffer.BeginBufferingScope())
        {
            for (var handle = 0; handle < busy; handle++)
                buffer.Write(Some.Connection(node: 1), "waits");
            buffer.Write(Some.Connection(node: 2), "passes");
        }

        clock.Advance(outage);
        queues.Full.Add(1);
        queues.IsAway = false;
        clock.Advance(TimeSpan.FromSeconds(10));
        var passed = queues.Texts(2).Count;
        queues.Full.Clear();
        clock.Advance(TimeSpan.FromSeconds(10));

        Assert.Equal(0, log.Count(RouteBroke));
        var statistics = buffer.GetStatistics();
        Assert.Equal((1, busy), (passed, queues.Texts(1).Count));
        Assert.Equal((busy + 1, 0, 0), (statistics.AcknowledgedMessages, statistics.FailedMessages, statistics.PendingMessages));
    });

    [Fact]
    public Task Output_for_all_nodes_stays_behind_all_that_was_written_before_it() => ForEachMomentAsync(async (outage, clock) =>
    {
        var queues = new FullQueues { IsAway = true };
        await using var buffer = new OutputBuffer(queues.CreateTransport(), Options, timeProvider: clock);
        using (buffer.BeginBufferingScope())
        {
            buffer.Write(Some.Connection(node: 1), "a");
            buffer.Write(Some.Connection(node: 2), "b");
            buffer.Write(_group, "all");
        }

        clock.Advance(outage);
        queues.Full.UnionWith([1, 2]);
        queues.IsAway = false;
        clock.Advance(TimeSpan.FromSeconds(10));
        queues.Full.Clear();
        clock.Advance(TimeSpan.FromSeconds(10));

        Assert.Equal(["a", "all"], queues.Texts(1));
        Assert.Equal(["b", "all"], queues.Texts(2));
    });

    private static async Task ForEachMomentAsync(Func<TimeSpan, ManualTimeProvider, Task> run)
    {
        for (var moment = 1; moment <= Moments; moment++)
            await run(TimeSpan.FromMilliseconds(50 * moment), new ManualTimeProvider());
    }
}
