namespace BatchKit.Broadcast.Fanout;

/// <summary>One batch's share of what a connection gets.</summary>
/// <param name="Delivery">The batch's place in the send.</param>
/// <param name="Messages">How many of its messages, from the first.</param>
/// <param name="Next">The next part's place, or -1.</param>
internal readonly record struct StagedPart(int Delivery, int Messages, int Next);
