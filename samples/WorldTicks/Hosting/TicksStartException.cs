namespace WorldTicks.Hosting;

/// <summary>There was no PostgreSQL to work with; the message is for the person who started the program.</summary>
internal sealed class TicksStartException(string message) : Exception(message);
