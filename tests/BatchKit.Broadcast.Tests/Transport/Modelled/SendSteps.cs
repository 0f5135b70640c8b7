using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Transport.Modelled;

/// <summary>Draws sequences of sends, and makes a failing one smaller.</summary>
internal static class SendSteps
{
    public const int Clients = 6;
    public const int Groups = 3;

    private static readonly Gen<MessageStepKind> Kinds = Gen.Frequency(
        (40, Gen.Constant(MessageStepKind.Text)),
        (2, Gen.Constant(MessageStepKind.Large)),
        (15, Gen.Constant(MessageStepKind.Excluding)),
        (4, Gen.Constant(MessageStepKind.Gmcp)),
        (20, Gen.Constant(MessageStepKind.Join)),
        (10, Gen.Constant(MessageStepKind.Leave)),
        (1, Gen.Constant(MessageStepKind.Close)),
        (2, Gen.Constant(MessageStepKind.Unknown)));

    private static readonly Gen<MessageStep> Message =
        from kind in Kinds
        from @group in Gen.Choose(0, Groups - 1)
        from excluded in Gen.Choose(0, (1 << Clients) - 1)
        select new MessageStep(kind, @group, excluded);

    private static readonly Gen<BatchStep> Batch =
        from target in Gen.Choose(0, Clients + Groups - 1)
        from count in Gen.Choose(1, 4)
        from messages in Message.ArrayOf(count)
        select new BatchStep(target, messages);

    private static readonly Gen<SendStep> One =
        from count in Gen.Frequency((1, Gen.Constant(0)), (20, Gen.Choose(1, 5)))
        from batches in Batch.ArrayOf(count)
        from gone in Gen.Choose(0, Clients - 1)
        select new SendStep(batches, gone);

    public static Arbitrary<SendStep[]> Arbitrary { get; } = Arb.From(One.ArrayOf(), Smaller);

    private static IEnumerable<SendStep[]> Smaller(SendStep[] steps)
    {
        for (var length = steps.Length / 2; length > 0; length /= 2)
        {
            for (var start = 0; start + length <= steps.Length; start += length)
                yield return [.. steps[..start], .. steps[(start + length)..]];
        }

        for (var index = 0; index < steps.Length; index++)
        {
            if (steps[index].Batches.Length > 1)
                yield return [.. steps[..index], steps[index] with { Batches = steps[index].Batches[1..] }, .. steps[(index + 1)..]];
        }
    }
}
