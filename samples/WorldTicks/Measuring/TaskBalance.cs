namespace WorldTicks.Measuring;

/// <summary>Where each task that was written is: the parts add up to the whole, because each task counts in the first that it is in.</summary>
/// <remarks>
/// The parts are read one after the other, in the order in which a task goes through them, so that a task which moves on meanwhile is seen twice and not missed: what is left over was in none of
/// them, and is lost.
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

    /// <summary>Dropped by the buffer: the server was away for too long.</summary>
    public long Unsent { get; }

    /// <summary>In the buffer, on the way to the server.</summary>
    public long Buffered { get; }

    /// <summary>Nowhere.</summary>
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
