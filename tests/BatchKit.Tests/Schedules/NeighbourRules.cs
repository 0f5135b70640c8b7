using BatchKit.Batches;

namespace BatchKit.Tests.Schedules;

/// <summary>What others may not do to a write: output for a route that is away takes no capacity that belongs to another route, and one handle not all of its route's.</summary>
internal static class NeighbourRules
{
    // What the buffer adds to a message without a header, and how much more an encoder may ask for than it uses.
    private const int MostExtraBytes = 4 + 20;

    // One handle may have three quarters of what its routes can have.
    private const int LeftByOneHandle = 4;

    /// <summary>True when the message fits into what is left for it, whatever others hold.</summary>
    public static bool MustFit(World world, LedgerMessage message) =>
        !world.IsStopped && message.Kind == MessageKind.Output && message.Bytes + MostExtraBytes + (message.Key is null ? 0 : LatestValues.KeyBytes) <= Math.Min(world.Schedule.Options.MaxMessageBytes, FindFree(world, message));

    public static void CheckDecision(World world, LedgerMessage message, bool isAccepted)
    {
        if (message.MustFit && !isAccepted)
            world.Journal.Broken($"m{message.Id} was turned away, though only others could have filled the buffer");
    }

    public static void CheckWait(World world, LedgerMessage message)
    {
        if (message.MustFit)
            world.Journal.Broken($"m{message.Id} waits for capacity, though only others could have filled the buffer");
    }

    // The half that is divided has a part for each route and one for output that takes both.
    private static long FindFree(World world, LedgerMessage message)
    {
        var schedule = world.Schedule;
        var users = Enumerable.Range(0, schedule.Handles.Length).Where(handle => schedule.RoutesOf(handle) == schedule.RoutesOf(message.Handle) && Uses(handle)).ToList();
        return users switch
        {
            [] => schedule.Options.MaxBufferedBytes / (schedule.HasTwoRoutes ? 2 * 3 : 1),
            [var other] when other != message.Handle && !schedule.HasTwoRoutes => schedule.Options.MaxBufferedBytes / LeftByOneHandle,
            _ => 0,
        };

        bool Uses(int handle) =>
            world.Buffer.GetPendingBytes(schedule.Handles[handle]) > 0 || world.Ledger.Messages.Any(other => other != message && other.Handle == handle && other.IsAccepted is null);
    }
}
