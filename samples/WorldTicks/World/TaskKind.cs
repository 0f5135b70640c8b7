namespace WorldTicks.World;

/// <summary>The kind of a task.</summary>
internal enum TaskKind
{
    Walk = 0,

    Talk = 1,

    /// <summary>Looks who shouted. Several shouts in a tick are one task, by a uniqueness key.</summary>
    Look = 2,

    /// <summary>Wakes up after a nap, by a delay.</summary>
    Wake = 3,

    /// <summary>Falls off the map. It fails at each attempt, and ends in the dead table.</summary>
    FallOffTheMap = 4,

    /// <summary>One step of a region's weather, in order by the region's key.</summary>
    Weather = 5,
}
