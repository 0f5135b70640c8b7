namespace MudServer.Softcode;

/// <summary>Softcode went past a limit; the message is for the player.</summary>
internal sealed class SoftcodeLimitException(string message) : Exception(message);
