namespace BatchKit.Tests.Schedules;

/// <summary>How a send of the scheduled transport ends.</summary>
internal enum SendEnding
{
    /// <summary>All arrives, and is acknowledged.</summary>
    Succeeds,

    /// <summary>Nothing arrives.</summary>
    Fails,

    /// <summary>All arrives, and the acknowledgement is lost.</summary>
    LosesAcknowledgement,

    /// <summary>A part arrives before it fails.</summary>
    BreaksOff,

    /// <summary>Each batch has an outcome of its own.</summary>
    Answers,

    /// <summary>It heeds its token.</summary>
    IsCancelled,
}
