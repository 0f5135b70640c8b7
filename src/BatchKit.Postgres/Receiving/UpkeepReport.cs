namespace BatchKit.Postgres.Receiving;

/// <summary>What an upkeep found.</summary>
/// <param name="HasWork">There is something to claim now.</param>
/// <param name="Returned">Messages that came back from claims that had ended.</param>
/// <param name="Buried">Messages that went to the dead table, because their last attempt never ended.</param>
/// <param name="NextDue">How long until a delayed message is due; null when none waits.</param>
internal readonly record struct UpkeepReport(bool HasWork, int Returned, int Buried, TimeSpan? NextDue);
