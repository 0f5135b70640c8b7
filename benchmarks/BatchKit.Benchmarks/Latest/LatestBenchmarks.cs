using System.Globalization;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Latest;

/// <summary>What does a client get of values that change far faster than it reads, and what is held for it? 10,000 updates a second of 100 keys, to a client that reads 1 KB/s.</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: it counts, and its time is the client's. For each line that the client reads, as many updates are written as such a second has.</remarks>
internal sealed class LatestBenchmarks : ISuiteRunner
{
    private const int UpdatesOfSecond = 10_000;
    private const int BytesOfSecond = 1_000;
    private const int Keys = 100;

    private static readonly int[] Sizes = [100, 200, 1000];

    private readonly List<(int Size, LatestSample Sample)> _samples = [];

    /// <summary>Only one round of the keys, to see that it works.</summary>
    public bool IsShort { get; init; }

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        var readings = new SuiteReadings(WriteTables);
        for (var round = 0; round < suite.Rounds; round++)
        {
            foreach (var size in Sizes)
            {
                var sample = MeasureAsync(size).GetAwaiter().GetResult();
                _samples.Add((size, sample));
                readings.Add(Name("Updates", size), new GateReading { [GateMetric.Stale] = sample.MostStaleLines, [GateMetric.Held] = sample.MostHeldBytes, [GateMetric.Allocated] = sample.AllocatedBytes });
                readings.Add(Name("Alone", size), new GateReading { [GateMetric.Held] = sample.HeldAloneBytes });
            }
        }

        return readings;
    }

    private static string Name(string row, int size) => $"{nameof(LatestBenchmarks)}.{row}[Size={size}]";

    private async Task<LatestSample> MeasureAsync(int size)
    {
        await using var stage = await LatestStage.StartAsync(Keys, size);
        return await stage.MeasureAsync(UpdatesOfSecond * size / BytesOfSecond, IsShort ? Keys : 5 * Keys);
    }

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        var title = $"{UpdatesOfSecond} updates a second of {Keys} keys, to a client that reads {BytesOfSecond} B a second; the largest of {5 * Keys} lines";
        string[] columns = ["a value", "a newer one was written before so many lines", "bytes held", $"bytes held for {Keys} messages alone", $"bytes of {Keys} values", "allocated by an update"];
        MarkdownTable.Write(writer, title, columns, _samples.GroupBy(static sample => sample.Size).Select(static group => Describe(group.Key, [.. group.Select(static pair => pair.Sample)])));
    }

    private static IEnumerable<string> Describe(int size, LatestSample[] samples) =>
    [
        $"{size} B", Median(samples, static sample => sample.MostStaleLines), Median(samples, static sample => sample.MostHeldBytes), Median(samples, static sample => sample.HeldAloneBytes),
        $"{Keys * size}", Quantile.Of([.. samples.Select(static sample => sample.AllocatedBytes)], 0.5).ToString("0.00", CultureInfo.InvariantCulture),
    ];

    private static string Median(LatestSample[] samples, Func<LatestSample, double> select) => Quantile.Of([.. samples.Select(select)], 0.5).ToString("0", CultureInfo.InvariantCulture);
}
