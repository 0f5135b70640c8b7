using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Tests.Sequences;

/// <summary>Draws sequences of steps, and makes a failing one smaller.</summary>
internal static class Steps
{
    public const int Handles = 5;

    private static readonly Gen<StepKind> Kinds = Gen.Frequency(
        (10, Gen.Constant(StepKind.Write)),
        (4, Gen.Constant(StepKind.TryWrite)),
        (4, Gen.Constant(StepKind.WriteAsync)),
        (3, Gen.Constant(StepKind.WriteText)),
        (7, Gen.Constant(StepKind.WriteLatest)),
        (2, Gen.Constant(StepKind.WriteLatestText)),
        (4, Gen.Constant(StepKind.WriteExpiring)),
        (4, Gen.Constant(StepKind.WriteLoop)),
        (9, Gen.Constant(StepKind.OpenScope)),
        (6, Gen.Constant(StepKind.OpenLimited)),
        (3, Gen.Constant(StepKind.OpenAmbient)),
        (9, Gen.Constant(StepKind.Close)),
        (2, Gen.Constant(StepKind.CloseTwice)),
        (2, Gen.Constant(StepKind.CloseAsync)),
        (3, Gen.Constant(StepKind.EndScope)),
        (2, Gen.Constant(StepKind.FlushHandle)),
        (1, Gen.Constant(StepKind.FlushAll)),
        (6, Gen.Constant(StepKind.Advance)));

    private static readonly Gen<Step> One =
        from kind in Kinds
        from handle in Gen.Choose(0, Handles - 1)
        from scope in Gen.Choose(0, 40)
        from size in Gen.Choose(SequenceRun.MinMessageBytes, 60)
        from elsewhere in Gen.Frequency((7, Gen.Constant(false)), (1, Gen.Constant(true)))
        select new Step(kind, handle, scope, size, elsewhere);

    public static Arbitrary<Step[]> Arbitrary { get; } =
        Arb.From(One.ArrayOf(), Smaller);

    private static IEnumerable<Step[]> Smaller(Step[] steps)
    {
        for (var length = steps.Length / 2; length > 0; length /= 2)
        {
            for (var start = 0; start + length <= steps.Length; start += length)
                yield return [.. steps[..start], .. steps[(start + length)..]];
        }

        for (var index = 0; index < steps.Length; index++)
        {
            if (steps[index].Elsewhere)
                yield return [.. steps[..index], steps[index] with { Elsewhere = false }, .. steps[(index + 1)..]];
        }
    }
}
