namespace BatchKit.Transports;

/// <summary>A receiver's counters since it was made: received = delivered + duplicate + own-group + refused + abandoned + those of the frame under way.</summary>
public readonly record struct BatchReceiverStatistics
{
    /// <summary>Frames that were read.</summary>
    public long ReceivedFrames { get; init; }

    /// <summary>Frames that were refused as malformed.</summary>
    public long MalformedFrames { get; init; }

    /// <summary>Batches in the frames that were read; those of a frame that is received again count again.</summary>
    public long ReceivedBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long ReceivedMessages { get; init; }

    /// <summary>Batches that the next hop has.</summary>
    public long DeliveredBatches { get; init; }

    /// <summary>Messages in those batches, without those that it refused one by one.</summary>
    public long DeliveredMessages { get; init; }

    /// <summary>Batches dropped because their numbers were seen before.</summary>
    public long DuplicateBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long DuplicateMessages { get; init; }

    /// <summary>Batches for named handles dropped because this node sent them itself.</summary>
    public long OwnGroupBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long OwnGroupMessages { get; init; }

    /// <summary>Batches that the next hop refused for good; they are lost.</summary>
    public long RefusedBatches { get; init; }

    /// <summary>Messages in those batches, and single messages that the next hop refused while it took the rest of their batch.</summary>
    public long RefusedMessages { get; init; }

    /// <summary>Batches of frames that were abandoned because the receiver was cancelled; the broker still has them.</summary>
    public long AbandonedBatches { get; init; }

    /// <summary>Messages in those batches.</summary>
    public long AbandonedMessages { get; init; }

    /// <summary>How often the next hop has failed since it last took something; zero when all is well.</summary>
    public int FailuresInARow { get; init; }
}
