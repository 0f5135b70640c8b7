using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RhythmWays;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>One way on one disk, and how many tasks a second it does.</summary>
/// <param name="plan">What it is.</param>
/// <param name="disk">Where.</param>
/// <param name="way">Does it.</param>
internal sealed class RateRow(RatePlan plan, string disk, IRhythmWay way)
{
    private const int Step = 1000;
    private const int MaxSteps = 200;

    private readonly List<double> _rates = [];
    private readonly List<double> _processor = [];
    private double _guess;

    public RatePlan Plan => plan;

    public string Disk => disk;

    public string Name => plan.NameOn(disk);

    public double Rate => Quantile.Of(_rates, 0.5);

    /// <summary>Lets the compiler come to its last tier, and sees how fast it goes.</summary>
    public async Task WarmUpAsync(TimeSpan duration)
    {
        _guess = (await RunAsync(plan.Tasks ?? Step)).Rate;
        if (plan.Tasks is null)
            _guess = (await RunAsync(TasksIn(duration))).Rate;
    }

    public async Task<GateReading> MeasureAsync(TimeSpan duration)
    {
        // A few tasks are done before a timer ticks: more runs make up for it.
        for (var left = plan.Runs; left > 1; left--)
            Keep(await RunAsync(TasksIn(duration)));
        var (rate, processor) = await RunAsync(TasksIn(duration));
        Keep((rate, processor));
        return new GateReading { [GateMetric.Rate] = Quantile.Of(_rates.TakeLast(plan.Runs), 0.5) };
    }

    private void Keep((double Rate, double Processor) sample)
    {
        _guess = Math.Max(_guess, sample.Rate);
        _rates.Add(sample.Rate);
        _processor.Add(sample.Processor);
    }

    /// <summary>The row's cells.</summary>
    /// <param name="baseline">The unbatched way.</param>
    /// <param name="floor">The least that has to be done.</param>
    public IEnumerable<string> Describe(RateRow baseline, RateRow floor) =>
    [
        plan.Title,
        $"{Rate:0}",
        $"{Rate / baseline.Rate:0.0}",
        $"{Rate / floor.Rate:0.00}",
        $"{Quantile.Of(_processor, 0.5):0.0}",
    ];

    private async Task<(double Rate, double Processor)> RunAsync(int tasks)
    {
        await way.PrepareAsync(tasks);
        var processor = Environment.CpuUsage.TotalTime;
        var elapsed = await way.RunAsync(tasks);
        processor = Environment.CpuUsage.TotalTime - processor;
        try
        {
            await way.CheckAsync(tasks);
        }
        catch (InvalidOperationException failure)
        {
            throw new InvalidOperationException($"{Name}: {failure.Message}", failure);
        }

        return (tasks / elapsed.TotalSeconds, processor.TotalMicroseconds / tasks);
    }

    private int TasksIn(TimeSpan duration) => plan.Tasks ?? Math.Clamp((int)(_guess * duration.TotalSeconds / Step), 1, MaxSteps) * Step;
}
