namespace MudServer.Hosting;

/// <summary>The server was asked to run in a way that it does not know; the message is for the person who asked.</summary>
internal sealed class MudUsageException(string message) : Exception(message);
