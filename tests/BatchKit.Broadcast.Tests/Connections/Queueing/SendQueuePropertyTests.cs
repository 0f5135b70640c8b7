using System.Globalization;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Connections.Queueing;

[Trait("Lane", "slow: many random inputs")]
public sealed class SendQueuePropertyTests
{
    // 500 by default; .ci/run sets BATCHKIT_TEST_SEQUENCES=2000, and the night 100000.
    private static readonly int Sequences =
        int.Parse(Environment.GetEnvironmentVariable("BATCHKIT_TEST_SEQUENCES") ?? "500", CultureInfo.InvariantCulture);

    [Theory]
    [InlineData(SlowConsumerPolicy.Disconnect)]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    public async Task A_random_sequence_of_sends_and_blocking_does_what_the_plain_model_does(SlowConsumerPolicy policy)
    {
        var property = Prop.ForAll(QueueSteps.Arbitrary, steps => QueueRun.Check(steps, policy));

        // Away from the test's context, so that what waits goes on before the step that let it go on returns.
        await Task.Run(() => Check.One(Config.QuickThrowOnFailure.WithMaxTest(Sequences).WithEndSize(80), property));
    }
}
