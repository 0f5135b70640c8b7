namespace MudServer.Softcode;

/// <summary>Softcode exceeded a limit. The message is shown to the player.</summary>
internal sealed class SoftcodeLimitException(string message) : Exception(message);
