namespace BatchKit.Postgres;

/// <summary>How many messages a queue has in each state.</summary>
/// <param name="Queue">Its name.</param>
/// <param name="Shards">How many shards an ordered queue has; 0 for one without order.</param>
/// <param name="Ready">Messages that can be claimed now.</param>
/// <param name="Delayed">Messages that wait for their time, new ones and failed ones.</param>
/// <param name="Claimed">Messages that a worker holds.</param>
/// <param name="Dead">Messages that were given up.</param>
/// <param name="OldestAge">How long ago the oldest message that is ready or claimed was enqueued; null when there is none.</param>
public sealed record QueueCounts(string Queue, int Shards, long Ready, long Delayed, long Claimed, long Dead, TimeSpan? OldestAge);
