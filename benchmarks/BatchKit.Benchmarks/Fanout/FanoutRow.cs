using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Fanout;

/// <summary>One benchmark with a number of subscribers, and all that was measured of it.</summary>
internal sealed class FanoutRow(FanoutBenchmark benchmark, int subscribers, FanoutPair pair)
{
    private const double NanosecondsPerMillisecond = 1e6;

    private readonly List<FanoutSample> _samples = [];
    private ServerUsage _usage;
    private TimeSpan _elapsed;

    public int Subscribers => subscribers;

    public string Name => benchmark.NameFor(subscribers);

    /// <summary>Lets the compiler come to its last tier.</summary>
    public void WarmUp(int broadcasts)
    {
        for (var broadcast = 0; broadcast < broadcasts; broadcast += benchmark.Sends)
            pair.Run(benchmark);
    }

    /// <summary>Sends the given number of consecutive times.</summary>
    public GateReading Measure(int broadcasts)
    {
        var count = Math.Max(1, broadcasts / benchmark.Sends);
        var before = ServerUsage.Ask(pair.Server);
        var began = Stopwatch.GetTimestamp();
        var samples = new FanoutSample[count];
        for (var index = 0; index < count; index++)
            samples[index] = pair.Run(benchmark);
        _elapsed += Stopwatch.GetElapsedTime(began);
        var usage = ServerUsage.Ask(pair.Server) - before;
        _usage += usage;
        _samples.AddRange(samples);
        return new GateReading
        {
            [GateMetric.LastByte] = Quantile.Of(samples.Select(sample => sample.LastByte), 0.25),
            [GateMetric.Call] = Quantile.Of(samples.Select(sample => sample.Call), 0.25),
            [GateMetric.Processor] = usage.ProcessorNanoseconds / count / NanosecondsPerMillisecond,
            [GateMetric.Allocated] = usage.AllocatedBytes / count,
        };
    }

    /// <summary>The row's cells in the table.</summary>
    public IEnumerable<string> Describe()
    {
        var lastByte = _samples.Select(sample => sample.LastByte).ToArray();
        var median = Quantile.Of(lastByte, 0.5);
        var seconds = Math.Max(_elapsed.TotalSeconds, 1e-9);
        yield return benchmark.Method;
        yield return $"{subscribers}";
        yield return $"{_samples.Count}";
        yield return $"{Quantile.Of(_samples.Select(sample => sample.Call), 0.5):0.00}";
        yield return $"{median:0.0}";
        yield return $"{Quantile.Of(lastByte, 0.95):0.0}";
        yield return $"{Quantile.Of(lastByte, 0.99):0.0}";
        yield return $"{subscribers * (double)benchmark.Messages / median:0}";
        yield return $"{_usage.ProcessorNanoseconds / _samples.Count / NanosecondsPerMillisecond:0.0}";
        yield return $"{_usage.AllocatedBytes / _samples.Count:0}";
        yield return $"{_usage.Gen0 / seconds:0.00} / {_usage.Gen1 / seconds:0.00} / {_usage.Gen2 / seconds:0.00}";
    }
}
