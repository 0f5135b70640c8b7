using System.Diagnostics;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.HubNodes;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Hubs;

/// <summary>One way to send 1000 messages to a group, and all that was measured of it.</summary>
/// <param name="Method">Its name.</param>
/// <param name="Sending">How the loop sends.</param>
/// <param name="Stage">Who sends and who receives.</param>
internal sealed record HubRow(string Method, HubSending Sending, HubStage Stage)
{
    private readonly List<(double Call, double LastByte)> _samples = [];
    private double _published;

    public static IReadOnlyList<string> Columns { get; } = ["", "loops", "call p50, ms", "last byte p50, ms", "p95, ms", "published"];

    public string Name => $"{nameof(SignalRBenchmarks)}.{Method}";

    /// <summary>Lets the compiler come to its last tier.</summary>
    public void WarmUp(int loops)
    {
        for (var loop = 0; loop < loops; loop++)
            Stage.Run(Sending);
    }

    /// <summary>Sends so many loops, and more while the time is not over.</summary>
    /// <param name="loops">At least.</param>
    /// <param name="duration">At least.</param>
    /// <param name="countPublished">What Redis was given to publish since it started.</param>
    public GateReading Measure(int loops, TimeSpan duration, Func<long> countPublished)
    {
        var before = countPublished();
        var samples = new List<(double Call, double LastByte)>();
        for (var began = Stopwatch.GetTimestamp(); samples.Count < loops || Stopwatch.GetElapsedTime(began) < duration;)
            samples.Add(Stage.Run(Sending));
        _samples.AddRange(samples);
        _published = (countPublished() - before) / (double)samples.Count;
        return new GateReading
        {
            [GateMetric.LastByte] = Quantile.Of(samples.Select(static sample => sample.LastByte), 0.25),
            [GateMetric.Call] = Quantile.Of(samples.Select(static sample => sample.Call), 0.25),
            [GateMetric.Published] = _published,
        };
    }

    /// <summary>The row's cells in the table.</summary>
    public IEnumerable<string> Describe()
    {
        var lastByte = _samples.Select(static sample => sample.LastByte).ToArray();
        return [Method, $"{_samples.Count}", $"{Quantile.Of(_samples.Select(static sample => sample.Call), 0.5):0.00}", $"{Quantile.Of(lastByte, 0.5):0.00}", $"{Quantile.Of(lastByte, 0.95):0.00}", $"{_published:0.00}"];
    }
}
