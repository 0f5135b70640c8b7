namespace WorldTicks.World;

/// <summary>The names and handles of the two queues.</summary>
internal static class TaskQueues
{
    /// <summary>The tasks of NPCs, without order.</summary>
    public const string Npc = "npc";

    /// <summary>The steps of the weather, in order for each region.</summary>
    public const string Weather = "weather";

    /// <summary>The most batches of weather that all workers together run at once.</summary>
    public const int WeatherShards = 8;

    public static OutputHandle NpcHandle { get; } = OutputHandle.Named(Npc);

    public static OutputHandle WeatherHandle { get; } = OutputHandle.Named(Weather);
}
