namespace BatchKit.Postgres.Receiving;

/// <summary>What is to be done with a message, once the limits have been applied to its outcome.</summary>
/// <param name="Outcome">Where it goes.</param>
/// <param name="Error">What the table says of it; null when it is done or released.</param>
/// <param name="Delay">The pause before its next attempt.</param>
internal readonly record struct Verdict(MessageOutcome Outcome, string? Error, TimeSpan Delay);
