namespace BatchKit.Postgres.Receiving;

/// <summary>What an exchange gave.</summary>
/// <param name="Taken">The new claims; empty when there is nothing to do.</param>
/// <param name="Refused">Of the claims to settle, those that had ended: their messages are another worker's.</param>
internal readonly record struct ClaimExchange(IReadOnlyList<Claim> Taken, IReadOnlyList<Claim> Refused);
