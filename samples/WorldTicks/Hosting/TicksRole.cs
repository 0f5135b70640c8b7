namespace WorldTicks.Hosting;

/// <summary>What a process does: it enqueues tasks, runs them, or both.</summary>
[Flags]
internal enum TicksRole
{
    None = 0,
    World = 1,
    Worker = 2,
    Both = World | Worker,
}
