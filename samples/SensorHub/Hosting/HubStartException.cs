namespace SensorHub.Hosting;

/// <summary>The broker was not available in time. The message is shown to the user.</summary>
internal sealed class HubStartException(string message) : Exception(message);
