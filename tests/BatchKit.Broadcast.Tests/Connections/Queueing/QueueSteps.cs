using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>Draws sequences of steps, and makes a failing one smaller.</summary>
internal static class QueueSteps
{
    private static readonly Gen<QueueStepKind> Kinds = Gen.Frequency(
        (20, Gen.Constant(QueueStepKind.Send)),
        (14, Gen.Constant(QueueStepKind.SendOwned)),
        (4, Gen.Constant(QueueStepKind.SendControl)),
        (1, Gen.Constant(QueueStepKind.SwitchWire)),
        (12, Gen.Constant(QueueStepKind.Grant)),
        (3, Gen.Constant(QueueStepKind.OpenWire)),
        (5, Gen.Constant(QueueStepKind.CloseWire)),
        (1, Gen.Constant(QueueStepKind.BreakWire)),
        (1, Gen.Constant(QueueStepKind.Complete)),
        (1, Gen.Constant(QueueStepKind.Abort)),
        (4, Gen.Constant(QueueStepKind.AdvanceClock)));

    private static readonly Gen<QueueStep> One =
        from kind in Kinds
        from messages in Gen.Choose(1, 3)
        from size in Gen.Choose(0, QueueRun.MaxMessageBytes)
        select new QueueStep(kind, messages, size);

    public static Arbitrary<QueueStep[]> Arbitrary { get; } = Arb.From(One.ArrayOf(), Smaller);

    private static IEnumerable<QueueStep[]> Smaller(QueueStep[] steps)
    {
        for (var length = steps.Length / 2; length > 0; length /= 2)
        {
            for (var start = 0; start + length <= steps.Length; start += length)
                yield return [.. steps[..start], .. steps[(start + length)..]];
        }
    }
}
