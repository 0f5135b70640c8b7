namespace WorldTicks.World;

/// <summary>What a task is about.</summary>
internal enum TaskKind
{
    Walk = 0,

    Talk = 1,

    /// <summary>To look who shouted: several shouts in a tick are one task, by a uniqueness key.</summary>
    Look = 2,

    /// <summary>To wake up after a nap: a delay.</summary>
    Wake = 3,

    /// <summary>To fall off the map: fails whenever it is tried, and ends dead.</summary>
    FallOffTheMap = 4,

    /// <summary>A step of a region's weather: in order, by the region's key.</summary>
    Weather = 5,
}
