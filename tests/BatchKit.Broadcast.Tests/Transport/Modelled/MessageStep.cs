namespace BatchKit.Broadcast.Tests.Transport.Modelled;

/// <summary>One message.</summary>
/// <param name="Kind">What it is.</param>
/// <param name="Group">The group of a join or leave.</param>
/// <param name="Excluded">A bit for each client that is excluded.</param>
internal sealed record MessageStep(MessageStepKind Kind, int Group, int Excluded);
