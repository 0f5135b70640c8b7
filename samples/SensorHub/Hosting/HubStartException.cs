namespace SensorHub.Hosting;

/// <summary>The broker was waited for in vain; the message is for the person who started the hub.</summary>
internal sealed class HubStartException(string message) : Exception(message);
