namespace Shared;

/// <summary>The broker or database was not available in time. The message is shown to the user.</summary>
internal sealed class StartException(string message) : Exception(message);
