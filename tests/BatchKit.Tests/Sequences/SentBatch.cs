namespace BatchKit.Tests.Sequences;

/// <summary>A batch as it left, in the model and in truth: the handle's index and the messages' numbers.</summary>
internal sealed record SentBatch(int Handle, int[] Messages)
{
    public override string ToString() => $"h{Handle}[{string.Join(' ', Messages)}]";
}
