using BatchKit.Benchmarks.RhythmWays;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>A way that is measured on each disk.</summary>
/// <param name="Group">The table that it is in.</param>
/// <param name="Method">What <c>gates.json</c> calls it.</param>
/// <param name="Title">What the table calls it.</param>
/// <param name="Make">Makes it.</param>
internal sealed record RatePlan(RateGroup Group, string Method, string Title, Func<RhythmStage, IRhythmWay> Make)
{
    private const int ShortTasks = 200;

    /// <summary>How many tasks a run has; null for as many as take the time of a round.</summary>
    public int? Tasks { get; init; }

    /// <summary>How many runs make a round's figure, by their median.</summary>
    public int Runs { get; init; } = 1;

    /// <summary>Why it can't run here; null when it can.</summary>
    public string? WhyMissing { get; init; }

    /// <summary>The same with few tasks and one run, to see that it works.</summary>
    public RatePlan Shorten() => this with { Tasks = ShortTasks, Runs = 1 };

    public string NameOn(string disk) => $"{nameof(RhythmBenchmarks)}.{Method}[Disk={disk}]";
}
