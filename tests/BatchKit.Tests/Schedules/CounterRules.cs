using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Tests.Schedules;

/// <summary>What the buffer's counters must say between any two steps.</summary>
internal static class CounterRules
{
    /// <summary>Accepted = acknowledged + failed + dropped + superseded + pending, and the buffer's figures are the ledger's.</summary>
    public static void Check(World world)
    {
        var (ledger, statistics) = (world.Ledger, world.Buffer.GetStatistics());
        var settled = statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages + statistics.SupersededMessages;
        if (statistics.AcceptedMessages != settled + statistics.PendingMessages)
            world.Journal.Broken($"messages are lost from the counters: {statistics}");
        if (statistics.AcceptedMessages < ledger.Accepted || statistics.AcceptedMessages > ledger.Accepted + ledger.Undecided)
            world.Journal.Broken($"{ledger.Accepted} messages are accepted, but: {statistics}");
        if (ledger.Undecided == 0 && statistics.AcceptedBytes != ledger.AcceptedBytes)
            world.Journal.Broken($"{ledger.AcceptedBytes} bytes are accepted, but: {statistics}");
        if (statistics.AcknowledgedMessages != ledger.Acknowledged)
            world.Journal.Broken($"{ledger.Acknowledged} messages are acknowledged, but: {statistics}");
        if (statistics.SupersededMessages != ledger.Superseded)
            world.Journal.Broken($"{ledger.Superseded} messages are superseded, but: {statistics}");
        if (statistics.ExpiredMessages > ledger.MayHaveExpired)
            world.Journal.Broken($"{ledger.MayHaveExpired} messages may have expired, but: {statistics}");
        if (statistics.RefusedMessages != ledger.Refused)
            world.Journal.Broken($"{ledger.Refused} messages were rejected at their write, but: {statistics}");
        if (statistics.BufferedBytes < 0 || statistics.BufferedBytes > world.Schedule.Options.MaxBufferedBytes)
            world.Journal.Broken($"more is buffered than may be: {statistics}");
        if (!world.Schedule.MayRefuse && !world.Schedule.MayGiveUp && statistics.FailedMessages > 0)
            world.Journal.Broken($"nothing was refused or given up, but: {statistics}");
        if (world.Schedule.Options.Overflow != OverflowPolicy.DropOldest && !world.IsStopped && statistics.DroppedMessages > statistics.ExpiredMessages)
            world.Journal.Broken($"nothing may be dropped, but: {statistics}");
        CheckHealth(world);
    }

    // What observers throw stops nothing, and is counted, each time.
    private static void CheckHealth(World world)
    {
        if (world.Observers is { WasUnderLock: true })
            world.Journal.Broken("an observer was called under a lock");
        if (world.IsStopped || world.Observers is not { } observers || (observers.Thrown == 0 && !observers.HandlersThrew))
            return;
        var counted = observers.HandlersThrew ? "threw" : $"threw {observers.Thrown} times";
        var health = world.Buffer.GetHealth();
        if (health.Status == HealthStatus.Healthy || !health.Reasons.Any(reason => reason.Contains(counted, StringComparison.Ordinal)))
            world.Journal.Broken($"observers threw {observers.Thrown} times, but the buffer is {health.Status}: {string.Join(' ', health.Reasons)}");
    }
}
