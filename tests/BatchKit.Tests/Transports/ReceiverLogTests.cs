using BatchKit.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

/// <summary>What a stranger, or a broker that is down for long, can repeat without end fills no log.</summary>
public sealed class ReceiverLogTests : IDisposable
{
    private readonly LogCollector _collected = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly ReceiverLog _log;

    public ReceiverLogTests() => _log = new ReceiverLog(GuardedLogger.Of(_collected), _clock);

    public void Dispose() => _collected.Dispose();

    [Fact]
    public void What_a_stranger_repeats_is_logged_once_a_minute_with_its_count()
    {
        for (var minute = 0; minute < 2; minute++)
        {
            for (var frame = 0; frame < 1000; frame++)
            {
                _log.FrameUnreadable(200, new FrameFormatException("It is no frame."));
                _log.DeliveryBroke("queue", new InvalidOperationException("broken"));
                _log.FramesDropped("MaxWaitingFrames", 10);
            }

            _clock.Advance(TimeSpan.FromMinutes(1));
        }

        int[] ids = [204, 215, 216];
        Assert.All(ids, id => Assert.Equal(2, _collected.Count(id)));
        Assert.All(ids, id => Assert.Contains("1000", _collected.Entries.Last(entry => entry.Id == id).Text, StringComparison.Ordinal));
        Assert.Contains("It is no frame.", _collected.Text, StringComparison.Ordinal);
    }

    [Fact]
    public void A_reason_that_repeats_is_logged_again_only_behind_another_one_or_when_it_received_meanwhile()
    {
        foreach (var reason in new[] { "down", "down", "refused", "down" })
            _log.Ended("queue", reason);
        Assert.Equal(3, _collected.Count(213));

        _log.Receiving("queue", "broker");
        _log.Ended("queue", "down");

        Assert.Equal(4, _collected.Count(213));
    }
}
