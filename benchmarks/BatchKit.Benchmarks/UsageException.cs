namespace BatchKit.Benchmarks;

/// <summary>What the user wrote can't be followed; the message says in one line what to write instead.</summary>
internal sealed class UsageException(string message) : Exception(message);
