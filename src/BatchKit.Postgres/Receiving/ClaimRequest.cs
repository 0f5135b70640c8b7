namespace BatchKit.Postgres.Receiving;

/// <summary>What a worker asks for.</summary>
/// <param name="Claims">How many claims at most; 0 only settles. More than 1 is for prefetching, and for queues without order.</param>
/// <param name="RetriesFirst">True takes a message that has failed before and is due, alone, before fresh ones. Who claims changes between both, so that neither starves.</param>
internal readonly record struct ClaimRequest(int Claims, bool RetriesFirst);
