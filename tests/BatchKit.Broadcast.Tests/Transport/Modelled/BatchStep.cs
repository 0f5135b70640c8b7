namespace BatchKit.Broadcast.Tests.Transport.Modelled;

/// <summary>One batch of a send.</summary>
/// <param name="Target">A client's place, or behind those a group's.</param>
/// <param name="Messages">At least one.</param>
internal sealed record BatchStep(int Target, MessageStep[] Messages)
{
    public override string ToString() => $"to {Target}: {string.Join(", ", Messages.Select(message => message.ToString()))}";
}
