using BatchKit.Benchmarks.Figures;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Architecture.Tests;

/// <summary>The bars of the benchmarks: their arithmetic, where they may stand, and the figures of the pages.</summary>
public sealed class GateTests
{
    private static readonly IReadOnlyDictionary<string, GateSuite> Suites = GateFile.Read(Repository.In("benchmarks", "gates.json"));

    [Fact]
    public void Each_bar_would_notice_a_loss_of_half_the_speed_or_of_an_object()
    {
        var faults = from suite in Suites
                     from gate in suite.Value.Gates
                     let fault = GateRule.FindFault(gate)
                     where fault is not null
                     select $"{suite.Key}, {gate.Name}: {fault}.";

        Assert.Empty(faults);
    }

    [Fact]
    public void Each_gate_compares_benchmarks_of_its_own_suite()
    {
        var foreign = from suite in Suites
                      from benchmark in suite.Value.Benchmarks
                      where !suite.Value.Classes.Contains(benchmark.Split('.')[0], StringComparer.Ordinal)
                      select $"{suite.Key}: {benchmark}";

        Assert.Empty(foreign);
    }

    [Fact]
    public void The_pages_show_the_figures_of_the_results()
    {
        var figures = new FigurePage(Suites, static suite => File.ReadAllText(Repository.In("benchmarks", "results", $"{suite}.md")));

        foreach (var page in new[] { Repository.In("docs", "performance.md"), Repository.In("benchmarks", "figures.md"), Repository.In("README.md") })
        {
            var text = File.ReadAllText(page);
            Assert.Contains("<!-- figure", text, StringComparison.Ordinal);
            Assert.True(figures.Update(text) == text, $"{page} has other figures than benchmarks/results: dotnet run -c Release --project benchmarks/BatchKit.Benchmarks -- figures");
        }
    }

    [Theory]
    [InlineData(1.53, 2.29, null)]
    [InlineData(1.53, 2.31, "its max of 2.31 is above 1.5 times 1.53")]
    [InlineData(null, 2.29, "it does not say what a quiet machine measured")]
    public void A_ratio_stands_at_one_and_a_half_times_the_quiet_figure_at_most(double? quiet, double max, string? fault) =>
        Assert.Equal(fault, GateRule.FindFault(Ratio() with { Quiet = quiet, Max = max }));

    [Theory]
    [InlineData(60, 40, null)]
    [InlineData(60, 39.9, "its min of 39.9 is below 60 by more than 1.5")]
    public void A_ratio_that_must_be_large_stands_at_two_thirds_of_the_quiet_figure_at_least(double quiet, double min, string? fault) =>
        Assert.Equal(fault, GateRule.FindFault(Ratio() with { Quiet = quiet, Min = min }));

    [Theory]
    [InlineData(0, 0, null)]
    [InlineData(0, 1, "its max of 1 is above 1.05 times 0")]
    [InlineData(1056, 1100, null)]
    [InlineData(1056, 1110, "its max of 1110 is above 1.05 times 1056")]
    public void Bytes_are_exact_but_for_a_twentieth(double quiet, double max, string? fault) =>
        Assert.Equal(fault, GateRule.FindFault(Figure(GateMetric.Allocated) with { Quiet = quiet, Max = max }));

    [Fact]
    public void An_absolute_time_needs_a_reason()
    {
        var gate = Figure(GateMetric.Median) with { Quiet = 2, Max = 2 };

        Assert.Equal("it is an absolute time or rate: divide it by a row of the same run", GateRule.FindFault(gate));
        Assert.Null(GateRule.FindFault(gate with { Exception = "a promise" }));
        Assert.Equal("its exception says nothing", GateRule.FindFault(gate with { Exception = "" }));
    }

    [Fact]
    public void A_gates_figure_is_the_median_of_its_rounds_ratios()
    {
        var readings = new SuiteReadings(static _ => { });
        foreach (var (ours, floor) in new[] { (20.0, 10.0), (90.0, 10.0), (12.0, 10.0) })
        {
            readings.Add("Ours", new GateReading { [GateMetric.Time] = ours });
            readings.Add("Floor", new GateReading { [GateMetric.Time] = floor });
        }

        var result = readings.Compare(Ratio() with { Max = 2 });

        Assert.Equal([2.0, 9.0, 1.2], result.Rounds);
        Assert.Equal((2.0, true, "2.00x", "<= 2.00x"), (result.Measured, result.IsOk, result.Figure, result.Bound));
    }

    [Fact]
    public void A_ratio_may_divide_one_metric_by_another()
    {
        var readings = new SuiteReadings(static _ => { });
        readings.Add("Ours", new GateReading { [GateMetric.Call] = 3, [GateMetric.LastByte] = 60 });

        var result = readings.Compare(new Gate { Name = "call", Numerator = "Ours", Denominator = "Ours", Metric = GateMetric.Call, DenominatorMetric = GateMetric.LastByte, Max = 0.04 });

        Assert.Equal((0.05, "short"), (result.Measured, result.Verdict));
    }

    [Fact]
    public void A_short_run_refuses_a_gate_of_a_benchmark_that_it_does_not_have()
    {
        var readings = new SuiteReadings(static _ => { });
        readings.Add("Suite.Ours[Clients=100]", new GateReading { [GateMetric.Time] = 1 });
        readings.Leave("Suite.Floor", "it is not installed");
        var suite = Suite(Ratio() with { Numerator = "Suite.Ours[Clients=19500]", Denominator = "Suite.Floor" })["s"];

        readings.RefuseUnknown(suite);

        Assert.Throws<InvalidOperationException>(() => readings.RefuseUnknown(suite with { Gates = [Ratio() with { Numerator = "Suite.Our", Denominator = "Suite.Floor" }] }));
    }

    [Fact]
    public void A_figure_without_a_denominator_is_for_each_message()
    {
        var readings = new SuiteReadings(static _ => { });
        readings.Add("Ours", new GateReading { [GateMetric.Allocated] = 4250 });

        Assert.Equal("4.25 B", readings.Compare(Figure(GateMetric.Allocated) with { Messages = 1000, Max = 5 }).Figure);
    }

    [Fact]
    public void A_table_has_the_gates_with_a_line_for_the_page_and_marks_what_is_short()
    {
        var suites = Suite(Ratio() with { Name = "a", Max = 2, Page = "an a" }, Ratio() with { Name = "b", Max = 2, Page = "a b" }, Ratio() with { Name = "c", Max = 2 }, Ratio() with { Name = "d", Min = 1, Page = "a d" });
        var page = new FigurePage(suites, static _ => "| a | 1.50x | 1.40 to 1.60 | <= 3.00x | ok |\n| b | 2.10x | 2.00 to 2.20 | <= 3.00x | ok |\n| c | 1.00x | - | <= 2.00x | ok |\n");

        var updated = page.Update("Above.\n\n<!-- figures s -->\nold\n<!-- end of figures -->\nBelow.\n");

        Assert.Equal(
            "Above.\n\n<!-- figures s -->\n| what | measured | bar |\n|---|---:|---:|\n| an a | 1.50 | ≤ 2.00 |\n| a b | **2.10** | ≤ 2.00 |\n| a d | not yet | ≥ 1.00 |\n<!-- end of figures -->\nBelow.\n", updated);
        Assert.Equal(updated, page.Update(updated));
    }

    [Theory]
    [InlineData("| a | 706x | 622 to 1242 | >= 400x | ok |", "706")]
    [InlineData("| a | 71.54x | 67.72 to 86.31 | >= 25.00x | ok |", "72")]
    [InlineData("| a | 0.40x | 0.30 to 0.42 | <= 0.50x | ok |", "0.40")]
    public void A_figure_within_a_sentence_is_written_between_its_markers(string row, string figure)
    {
        var page = new FigurePage(Suite(Ratio() with { Name = "a", Min = 1 }), _ => row + "\n");

        Assert.Equal($"It is <!-- figure s: a -->{figure}<!-- end --> times as fast.", page.Update("It is <!-- figure s: a -->1<!-- end --> times as fast."));
    }

    [Theory]
    [InlineData("<!-- figure s: b -->1<!-- end -->")]
    [InlineData("<!-- figure t: a -->1<!-- end -->")]
    [InlineData("<!-- figures t -->\n<!-- end of figures -->")]
    public void A_marker_that_names_nothing_is_an_error(string text) =>
        Assert.Throws<InvalidDataException>(() => new FigurePage(Suite(Ratio() with { Name = "a", Min = 1 }), static _ => "").Update(text));

    private static Gate Ratio() => new() { Name = "ours / floor", Numerator = "Ours", Denominator = "Floor" };

    private static Gate Figure(GateMetric metric) => new() { Name = "ours", Numerator = "Ours", Metric = metric };

    private static Dictionary<string, GateSuite> Suite(params Gate[] gates) =>
        new(StringComparer.Ordinal) { ["s"] = new GateSuite { Classes = [], WarmupIterations = 0, Iterations = 1, Gates = gates } };
}
