namespace WorldTicks.Working;

/// <summary>A task fails at each attempt.</summary>
internal sealed class PoisonedTaskException(string message) : Exception(message);
