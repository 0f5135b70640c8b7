namespace WorldTicks.Hosting;

/// <summary>PostgreSQL was not available. The message is shown to the user.</summary>
internal sealed class TicksStartException(string message) : Exception(message);
