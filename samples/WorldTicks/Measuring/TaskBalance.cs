namespace WorldTicks.Measuring;

/// <summary>Where the written tasks are. The parts add up to the whole, because each task counts in the first part that has it.</summary>
/// <remarks>
/// The parts are read one after another, in the order in which a task passes through them. A task that moves on meanwhile is seen twice and not missed. A task that is in none of
/// them is lost.
/// </remarks>
internal sealed record TaskBalance
{
    private TaskBalance(long written, long done, long dead, long claimed, long waiting, long unsent, long buffered)
    {
        Written = written;
        var rest = written;
        Done = Take(ref rest, done);
        Dead = Take(ref rest, dead);
        Claimed = Take(ref rest, claimed);
        Waiting = Take(ref rest, waiting);
        Unsent = Take(ref rest, unsent);
        Buffered = Take(ref rest, buffered);
        Lost = rest;
    }

    public static TaskBalance None { get; } = new(0, 0, 0, 0, 0, 0, 0);

    public long Written { get; }

    public long Done { get; }

    public long Dead { get; }

    public long Claimed { get; }

    public long Waiting { get; }

    /// <summary>Tasks that the buffer dropped, because the server was unavailable for too long.</summary>
    public long Unsent { get; }

    /// <summary>Tasks in the buffer, which are not at the server yet.</summary>
    public long Buffered { get; }

    /// <summary>Tasks that are in no other part.</summary>
    public long Lost { get; }

    public static TaskBalance Of(WorldSnapshot snapshot) => new(
        snapshot.Tasks, snapshot.Done, snapshot.Dead, snapshot.Claimed, snapshot.Ready + snapshot.Delayed, snapshot.Unsent, snapshot.Buffered);

    private static long Take(ref long rest, long part)
    {
        var taken = Math.Clamp(part, 0, rest);
        rest -= taken;
        return taken;
    }
}
