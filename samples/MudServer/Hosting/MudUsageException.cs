namespace MudServer.Hosting;

/// <summary>The arguments or settings are wrong. The message is shown to the user.</summary>
internal sealed class MudUsageException(string message) : Exception(message);
