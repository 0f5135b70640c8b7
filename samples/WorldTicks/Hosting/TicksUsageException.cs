namespace WorldTicks.Hosting;

/// <summary>The program was asked to run in a way that it does not know; the message is for the person who asked.</summary>
internal sealed class TicksUsageException(string message) : Exception(message);
