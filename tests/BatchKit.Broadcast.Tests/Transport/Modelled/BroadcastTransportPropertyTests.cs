using System.Globalization;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Transport.Modelled;

[Trait("Lane", "slow: many random inputs")]
public sealed class BroadcastTransportPropertyTests
{
    // 500 by default; .ci/run sets BATCHKIT_TEST_SEQUENCES=2000, and the night 100000.
    private static readonly int Sequences =
        int.Parse(Environment.GetEnvironmentVariable("BATCHKIT_TEST_SEQUENCES") ?? "500", CultureInfo.InvariantCulture);

    [Fact]
    public void A_random_sequence_of_sends_gives_every_client_what_the_plain_model_says()
    {
        var property = Prop.ForAll(SendSteps.Arbitrary, steps => TransportRun.CheckAsync(steps));

        Check.One(Config.QuickThrowOnFailure.WithMaxTest(Sequences).WithEndSize(30), property);
    }
}
