namespace BatchKit.Broadcast.Tests.Transport.Modelled;

/// <summary>One send, or, without batches, a client that is gone.</summary>
internal sealed record SendStep(BatchStep[] Batches, int Gone)
{
    public override string ToString() => Batches.Length == 0 ? $"{Gone} is gone" : string.Join("; ", Batches.Select(batch => batch.ToString()));
}
