namespace BatchKit.Transports;

/// <summary>What the next hop said to one frame.</summary>
/// <param name="Outcome">Its answer.</param>
/// <param name="Reason">A sentence that says why it does not have it; null when it has.</param>
/// <param name="Error">The cause, where there is one.</param>
public readonly record struct FrameResult(FrameOutcome Outcome, string? Reason = null, Exception? Error = null);
