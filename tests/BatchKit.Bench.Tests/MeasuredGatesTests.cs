using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Reports;

namespace BatchKit.Bench.Tests;

/// <summary>The gates that <c>init</c> makes.</summary>
public sealed class MeasuredGatesTests
{
    [Fact]
    public void A_time_is_a_ratio_to_the_baseline_with_the_same_parameters_at_most_half_as_much_again()
    {
        var gates = MeasuredGates.From([Row("Loop", "[Count=1]", 10), Row("Loop", "[Count=2]", 100), Row("Batch", "[Count=2]", 30)], "Loop");

        var gate = Assert.Single(gates);
        Assert.Equal(("Batch [Count=2] / Loop", "C.Batch[Count=2]", "C.Loop[Count=2]"), (gate.Name, gate.Numerator, gate.Denominator));
        Assert.Equal((0.45, null, 0.3), (gate.Max, gate.Min, gate.Quiet));
    }

    [Theory]
    [InlineData("Rooms.Say", "Rooms.Say")]
    [InlineData("Rooms.Say[Players=10, Text=[a]]", "Rooms.Say")]
    [InlineData("Codec<Byte[]>.Encode[Size=10]", "Codec<Byte[]>.Encode")]
    [InlineData("Codec<List<Byte[]>>.Encode[Text=a>b]", "Codec<List<Byte[]>>.Encode")]
    public void A_benchmark_is_run_by_its_method_whatever_brackets_its_class_has(string benchmark, string method) => Assert.Equal(method, Gate.MethodOf(benchmark));

    [Fact]
    public void A_ratio_that_two_decimals_would_not_show_is_turned_round()
    {
        var gate = Assert.Single(MeasuredGates.From([Row("Loop", "", 1500), Row("Batch", "", 1)], "Loop"));

        Assert.Equal(("C.Loop", "C.Batch", (double?)1000, (double?)null), (gate.Numerator, gate.Denominator, gate.Min, gate.Max));
    }

    [Fact]
    public void Allocated_bytes_are_held_exactly()
    {
        var gate = Assert.Single(MeasuredGates.From([Row("Loop", "", 10) with { Allocated = 56 }], "Loop"));

        Assert.Equal((GateMetric.Allocated, 56.0, true, false), (gate.Metric, gate.Max, gate.Holds(56), gate.Holds(57)));
    }

    [Fact]
    public void A_failed_benchmark_gets_no_gate() => Assert.Empty(MeasuredGates.From([Row("Loop", "", 10), Row("Batch", "", null)], "Loop"));

    private static ReportRow Row(string method, string parameters, double? time) => new("C", method, parameters, time, Allocated: null);
}
