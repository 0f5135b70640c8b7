using System.Globalization;

namespace BatchKit.Tests.Schedules;

public sealed class ScheduleTests
{
    private const int JournalLines = 400;

    // BATCHKIT_TEST_SEED=n replays one schedule with its whole journal; BATCHKIT_TEST_SEEDS=n explores so many.
    private static readonly int? ReplayedSeed = Setting("BATCHKIT_TEST_SEED");
    private static readonly int Seeds = Setting("BATCHKIT_TEST_SEEDS") ?? 100;

    [Fact]
    [Trait("Lane", "slow: many random inputs")]
    public void On_every_explored_schedule_nothing_is_lost_doubled_or_reordered_and_the_counters_add_up()
    {
        var report = ReplayedSeed is { } seed ? Explorer.Explore(seed, int.MaxValue) : FirstBroken();

        if (report is not null)
            Assert.Fail($"{report}{Environment.NewLine}Replay with BATCHKIT_TEST_SEED.");
    }

    private static string? FirstBroken() =>
        Enumerable.Range(1, Seeds).Select(seed => Explorer.Explore(seed, JournalLines)).FirstOrDefault(report => report is not null);

    private static int? Setting(string name) =>
        Environment.GetEnvironmentVariable(name) is { } value ? int.Parse(value, CultureInfo.InvariantCulture) : null;
}
