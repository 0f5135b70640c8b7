using System.Globalization;

namespace BatchKit.Tests.Schedules;

public sealed class CancelledOperationTests
{
    private const string CancellationsVariable = "BATCHKIT_TEST_CANCELLATIONS";

    private static readonly int Cancellations = int.Parse(Environment.GetEnvironmentVariable(CancellationsVariable) ?? "1000", CultureInfo.InvariantCulture);

    [Theory]
    [InlineData(CancelledOperation.Write)]
    [InlineData(CancelledOperation.FlushHandle)]
    [InlineData(CancelledOperation.FlushAll)]
    [InlineData(CancelledOperation.Stop)]
    public void An_operation_that_is_cancelled_at_any_step_loses_and_doubles_nothing_and_the_buffer_goes_on(string operation)
    {
        var cancellations = 0;
        for (var seed = 1; cancellations < Cancellations; seed++)
        {
            for (var step = 0; CancelledOperation.Run(operation, seed, step); step++)
                cancellations++;
            Assert.True(seed <= Cancellations, "Too few seeds have a step at which the operation waits.");
        }
    }
}
