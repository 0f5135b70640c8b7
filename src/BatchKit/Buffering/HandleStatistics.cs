namespace BatchKit.Buffering;

/// <summary>One handle's part of the buffer's statistics.</summary>
internal readonly record struct HandleStatistics(long AcceptedMessages, long AcceptedBytes, int HeldMessages, int OpenScopes);
