namespace WorldTicks.World;

/// <summary>The two queues, and the handles that are written to.</summary>
internal static class TaskQueues
{
    /// <summary>What NPCs do: in no order.</summary>
    public const string Npc = "npc";

    /// <summary>How the weather goes on: in order per region.</summary>
    public const string Weather = "weather";

    /// <summary>At most so many batches of weather run at once, in all workers together.</summary>
    public const int WeatherShards = 8;

    public static OutputHandle NpcHandle { get; } = OutputHandle.Named(Npc);

    public static OutputHandle WeatherHandle { get; } = OutputHandle.Named(Weather);
}
