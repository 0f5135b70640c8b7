namespace BatchKit.Dispatch;

/// <summary>Why a partition cannot send now, since when, and how often it tried.</summary>
internal sealed record PartitionFailure(long Since, int Attempts, Exception Cause);
