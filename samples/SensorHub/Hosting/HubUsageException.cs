namespace SensorHub.Hosting;

/// <summary>The hub was asked to run in a way that it does not know; the message is for the person who asked.</summary>
internal sealed class HubUsageException(string message) : Exception(message);
