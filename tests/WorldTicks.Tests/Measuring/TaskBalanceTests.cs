using WorldTicks.Measuring;

namespace WorldTicks.Tests.Measuring;

public sealed class TaskBalanceTests
{
    private static readonly WorldSnapshot Whole = new()
    {
        At = TimeSpan.Zero,
        Tasks = 100,
        Done = 60,
        Dead = 1,
        Claimed = 9,
        Ready = 17,
        Delayed = 3,
        Buffered = 10,
    };

    [Fact]
    public void What_is_somewhere_is_not_lost()
    {
        var balance = TaskBalance.Of(Whole);

        Assert.Equal(20, balance.Waiting);
        Assert.Equal(0, balance.Lost);
    }

    [Fact]
    public void What_is_nowhere_is_lost()
    {
        var balance = TaskBalance.Of(Whole with { Ready = 15 });

        Assert.Equal(2, balance.Lost);
    }

    [Fact]
    public void A_task_that_is_seen_on_both_sides_of_a_move_counts_once()
    {
        var balance = TaskBalance.Of(Whole with { Done = 65, Buffered = 30 });

        Assert.Equal(100, balance.Done + balance.Dead + balance.Claimed + balance.Waiting + balance.Unsent + balance.Buffered);
        Assert.Equal(5, balance.Buffered);
        Assert.Equal(0, balance.Lost);
    }
}
