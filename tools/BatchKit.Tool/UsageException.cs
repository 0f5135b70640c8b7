namespace BatchKit.Tool;

/// <summary>What was asked for can't be done as it was asked.</summary>
internal sealed class UsageException(string message) : Exception(message);
