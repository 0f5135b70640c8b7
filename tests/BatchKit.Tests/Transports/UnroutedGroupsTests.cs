using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class UnroutedGroupsTests
{
    private static readonly TimeSpan Grace = TimeSpan.FromSeconds(10);

    private readonly ManualTimeProvider _clock = new();
    private readonly UnroutedGroups _groups;

    public UnroutedGroupsTests() => _groups = new UnroutedGroups(Grace, _clock);

    [Fact]
    public void A_frame_is_not_sent_again_when_none_has_ever_reached_a_queue() => Assert.False(_groups.ShouldRetry());

    [Fact]
    public void Frames_are_sent_again_until_the_grace_is_over()
    {
        _groups.Reach();

        var atOnce = _groups.ShouldRetry();
        _clock.Advance(Grace - TimeSpan.FromTicks(1));
        var before = _groups.ShouldRetry();
        _clock.Advance(TimeSpan.FromTicks(1));

        Assert.True(atOnce);
        Assert.True(before);
        Assert.False(_groups.ShouldRetry());
        Assert.False(_groups.ShouldRetry());
    }

    [Fact]
    public void A_frame_that_reaches_a_queue_starts_the_grace_again()
    {
        _groups.Reach();
        _groups.ShouldRetry();
        _clock.Advance(Grace);

        _groups.Reach();

        Assert.True(_groups.ShouldRetry());
    }
}
