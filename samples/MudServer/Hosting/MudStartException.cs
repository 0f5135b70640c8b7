namespace MudServer.Hosting;

/// <summary>The server could not start; the message is for the person who started it.</summary>
internal sealed class MudStartException(string message, Exception innerException) : Exception(message, innerException);
