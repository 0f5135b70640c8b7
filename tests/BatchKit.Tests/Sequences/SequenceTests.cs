using System.Globalization;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Tests.Sequences;

[Trait("Figures", "more in .ci/run and at night")]
public sealed class SequenceTests
{
    // 150 by default; .ci/run sets BATCHKIT_TEST_SEQUENCES=2000, and the night 100000.
    private static readonly int Sequences =
        int.Parse(Environment.GetEnvironmentVariable("BATCHKIT_TEST_SEQUENCES") ?? "150", CultureInfo.InvariantCulture);

    [Fact]
    public void A_random_sequence_of_calls_does_what_the_plain_model_does()
    {
        var property = Prop.ForAll(Steps.Arbitrary, SequenceRun.Check);

        Check.One(Config.QuickThrowOnFailure.WithMaxTest(Sequences).WithEndSize(80), property);
    }
}
