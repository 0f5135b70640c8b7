namespace Shared;

/// <summary>The arguments or settings are wrong. The message is shown to the user.</summary>
internal sealed class UsageException(string message) : Exception(message);
