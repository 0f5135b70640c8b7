namespace WorldTicks.Working;

/// <summary>A task can't be run, however often it is tried.</summary>
internal sealed class PoisonedTaskException(string message) : Exception(message);
