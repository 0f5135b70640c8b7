namespace MudServer.Hosting;

/// <summary>The server could not start. The message is shown to the user.</summary>
internal sealed class MudStartException(string message, Exception innerException) : Exception(message, innerException);
