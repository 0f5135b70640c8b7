using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class CallerContextTests
{
    private static readonly AsyncLocal<string?> Caller = new();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_loop_sees_nothing_of_its_caller_whether_flow_is_suppressed_already_or_not(bool isSuppressed)
    {
        Caller.Value = "the caller";
        AsyncFlowControl? flow = isSuppressed ? ExecutionContext.SuppressFlow() : null;

        var loop = CallerContext.RunWithout(static () => Task.FromResult(Caller.Value));
        flow?.Undo();

        Assert.Null(await loop.WithinDeadline());
        Assert.Equal("the caller", Caller.Value);
    }

    [Fact]
    public void A_timer_is_not_set_when_it_is_created()
    {
        var clock = new ManualTimeProvider();

        using var timer = CallerContext.CreateTimer(clock, static _ => { }, state: null);

        Assert.Null(clock.NextDue);
    }
}
