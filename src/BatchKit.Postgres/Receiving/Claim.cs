namespace BatchKit.Postgres.Receiving;

/// <summary>A worker's time-limited hold on a batch of messages. What became of them is said on the messages themselves.</summary>
internal sealed class Claim(long token, int shard, QueueBatch batch)
{
    /// <summary>The row in <c>claims</c> for a queue without order; the shard's epoch for an ordered one. What bears an old one touches nothing.</summary>
    public long Token { get; } = token;

    /// <summary>The shard, in an ordered queue; -1 otherwise.</summary>
    public int Shard { get; } = shard;

    public QueueBatch Batch { get; } = batch;

    /// <summary>True when there seems to be more for another worker to claim.</summary>
    public bool HasMore { get; init; }
}
