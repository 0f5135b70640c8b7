namespace BatchKit.Postgres;

/// <summary>What a receiver has claimed and settled since it was made.</summary>
public sealed class PostgresQueueReceiverStatistics
{
    /// <summary>Batches that were claimed.</summary>
    public long ClaimedBatches { get; init; }

    /// <summary>Messages that were claimed; one that failed and was claimed again counts again.</summary>
    public long ClaimedMessages { get; init; }

    /// <summary>Messages that were handled, and are gone from the queue.</summary>
    public long CompletedMessages { get; init; }

    /// <summary>Messages that failed and wait for another attempt.</summary>
    public long RetriedMessages { get; init; }

    /// <summary>Messages that this receiver put into the dead table.</summary>
    public long BuriedMessages { get; init; }

    /// <summary>Messages that were given back unhandled, as at a stop.</summary>
    public long ReleasedMessages { get; init; }

    /// <summary>Messages whose outcome the server refused, because their claim had ended: they are another worker's.</summary>
    public long LostMessages { get; init; }

    /// <summary>Messages being handled now.</summary>
    public int HandlingMessages { get; init; }

    /// <summary>Messages held ready; see <see cref="PostgresQueueReceiverOptions.Prefetch"/>.</summary>
    public int PrefetchedMessages { get; init; }

    /// <summary>How many batches in a row have failed, with no success between.</summary>
    public int FailuresInARow { get; init; }
}
