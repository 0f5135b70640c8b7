using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class DeliveryWatchTests
{
    private readonly DeliveryWatch _watch = new();

    [Fact]
    public void A_broker_is_stalled_when_frames_wait_at_two_checks_and_none_came_in_between()
    {
        Receive();

        Assert.False(_watch.IsStalled(3));
        Assert.True(_watch.IsStalled(4));
    }

    [Fact]
    public void A_consumer_that_is_started_again_has_two_checks_of_its_own()
    {
        _watch.IsStalled(1);
        _watch.IsStalled(1);

        Assert.False(_watch.IsStalled(1));
        Assert.True(_watch.IsStalled(1));
    }

    [Fact]
    public void A_broker_is_not_stalled_when_a_frame_came_in_between()
    {
        _watch.IsStalled(1);
        Receive();

        Assert.False(_watch.IsStalled(1));
    }

    [Fact]
    public void A_broker_is_not_stalled_while_a_frame_is_in_hand()
    {
        _watch.Begin();

        Assert.False(_watch.IsStalled(1));
        Assert.False(_watch.IsStalled(1));
    }

    [Fact]
    public void A_broker_is_not_stalled_when_nothing_waited_at_a_check()
    {
        _watch.IsStalled(1);
        _watch.IsStalled(0);

        Assert.False(_watch.IsStalled(1));
    }

    private void Receive()
    {
        _watch.Begin();
        _watch.End();
    }
}
