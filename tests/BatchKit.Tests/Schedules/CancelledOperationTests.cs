namespace BatchKit.Tests.Schedules;

public sealed class CancelledOperationTests
{
    [Theory]
    [InlineData(CancelledOperation.Write)]
    [InlineData(CancelledOperation.FlushHandle)]
    [InlineData(CancelledOperation.FlushAll)]
    [InlineData(CancelledOperation.Stop)]
    [Trait("Lane", "slow: many random inputs")]
    public void An_operation_that_is_cancelled_at_any_step_loses_and_doubles_nothing_and_the_buffer_goes_on(string operation)
    {
        var (cancellations, wanted) = (0, Cancellations.Count(usual: 100));
        for (var seed = 1; cancellations < wanted; seed++)
        {
            for (var step = 0; CancelledOperation.Run(operation, seed, step); step++)
                cancellations++;
            Assert.True(seed <= wanted, "Too few seeds have a step at which the operation waits.");
        }
    }
}
