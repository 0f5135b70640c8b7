using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>The time limit of calls, on clocks whose timers can't be trusted.</summary>
public sealed class PublishTimeoutTests : PublishQueueTest
{
    private const int Calls = 64;

    private static readonly TimeSpan Tolerance = TimeSpan.FromMilliseconds(50);

    public static TheoryData<TimerFaults> Faults =>
    [
        TimerFaults.None,
        new TimerFaults { Early = TimeSpan.FromMilliseconds(3) },
        new TimerFaults { Late = TimeSpan.FromMilliseconds(20) },
        new TimerFaults { Early = TimeSpan.FromMilliseconds(3), Twice = true },
        TimerFaults.Random(Random.Shared.Next()),
    ];

    [Theory]
    [MemberData(nameof(Faults), DisableDiscoveryEnumeration = true)]
    public async Task Every_call_ends_at_its_limit_and_none_before(TimerFaults faults)
    {
        Time.TimerFaults = faults;
        Broker.Connect();
        var calls = Enumerable.Range(0, Calls).Select(_ => PublishAsync()).ToArray();
        Broker.Take();

        Time.Advance(Options.PublishTimeout - TimeSpan.FromTicks(1));
        var endedEarly = calls.Count(static call => call.IsCompleted);
        Time.Advance(Tolerance);

        Assert.Equal(0, endedEarly);
        foreach (var call in calls)
            await Assert.ThrowsAsync<TimeoutException>(() => call.WithinDeadline());
    }

    [Fact]
    public async Task A_call_that_reuses_the_memory_of_an_ended_one_has_its_whole_limit()
    {
        Broker.Connect();
        var first = PublishAsync();
        Broker.Take();
        Time.Advance(Options.PublishTimeout / 2);
        Broker.AcknowledgeAll();
        await first.WithinDeadline();

        var second = PublishAsync();
        Broker.Take();
        Time.Advance(Options.PublishTimeout - TimeSpan.FromTicks(1));
        var endedEarly = second.IsCompleted;
        Time.Advance(TimeSpan.FromTicks(1));

        Assert.False(endedEarly);
        await Assert.ThrowsAsync<TimeoutException>(() => second.WithinDeadline());
    }

    private Task<MqttPublishReport> PublishAsync() => Queue.PublishManyAsync(new MqttMessage[] { new("a", default) }, CancellationToken.None).AsTask();
}
