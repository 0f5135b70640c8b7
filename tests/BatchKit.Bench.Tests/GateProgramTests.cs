using System.Text.Json;

namespace BatchKit.Bench.Tests;

/// <summary><c>batchkit-bench gate</c> and <c>init</c> on BenchmarkDotNet's results: what they print and how they end.</summary>
public sealed class GateProgramTests : IDisposable
{
    private const string Gates = """
        {
          "rooms": {
            "gates": [
              { "name": "say / loop", "numerator": "Rooms.Say[Players=10, Lines=2]", "denominator": "Rooms.Loop[Players=10, Lines=2]", "max": 0.5 },
              { "name": "say, allocated", "numerator": "Rooms.Say[Players=10, Lines=2]", "metric": "allocated", "max": 40 }
            ]
          }
        }
        """;

    private readonly Scratch _scratch = new();

    public void Dispose() => _scratch.Dispose();

    [Fact]
    public async Task A_gate_is_a_line_and_the_median_of_the_rounds_decides()
    {
        _scratch.Write("gates.json", Gates);
        WriteRound("one", 30);
        WriteRound("two", 90);
        WriteRound("three", 40);

        var run = await RunAsync("gate", "gates.json", "--results", "one", "--results", "two", "--results", "three");

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Equal(["rooms:", "say / loop 0.40x <= 0.50x ok", "say, allocated 40.00 B <= 40.00 B ok"], LinesOf(run.Output));
    }

    [Fact]
    public async Task A_full_disk_ends_with_1_and_names_the_option()
    {
        Assert.SkipUnless(File.Exists("/dev/full"), "Only Linux has a file that stands for a full disk.");
        _scratch.Write("gates.json", Gates);
        WriteRound("one", 25);
        Directory.CreateDirectory(_scratch.In("out"));
        File.CreateSymbolicLink(_scratch.In("out", "rooms.json"), "/dev/full");

        var run = await RunAsync("gate", "gates.json", "--results", "one", "--out", "out");

        Assert.True(run.ExitCode == 1, run.Text);
        Assert.StartsWith("--out: out can't be written: No space left on device", run.Errors, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_gate_that_falls_short_ends_with_1()
    {
        _scratch.Write("gates.json", Gates);
        WriteRound("one", 51);

        var run = await RunAsync("gate", "gates.json", "rooms", "--results", "one");

        Assert.Equal((1, "say / loop 0.51x <= 0.50x short"), (run.ExitCode, LinesOf(run.Output)[1]));
    }

    [Fact]
    public async Task The_results_are_written_as_Markdown_and_as_Json()
    {
        _scratch.Write("gates.json", Gates);
        WriteRound("one", 25);
        _scratch.Write("one/results/Rooms-report-github.md", "| Method | Mean |\n|---|---|\n| Say | 25 ns |\n");

        var run = await RunAsync("gate", "gates.json", "--results", "one", "--out", "out");

        Assert.True(run.ExitCode == 0, run.Text);
        var markdown = await File.ReadAllTextAsync(_scratch.In("out", "rooms.md"), TestContext.Current.CancellationToken);
        Assert.Contains("| say / loop | 0.25x | 0.25 to 0.25 | <= 0.50x | ok |", markdown, StringComparison.Ordinal);
        Assert.Contains("| Say | 25 ns |", markdown, StringComparison.Ordinal);
        using var json = JsonDocument.Parse(await File.ReadAllTextAsync(_scratch.In("out", "rooms.json"), TestContext.Current.CancellationToken));
        Assert.Equal(("say / loop", 0.25, true), (json.RootElement[0].GetProperty("name").GetString(), json.RootElement[0].GetProperty("measured").GetDouble(), json.RootElement[0].GetProperty("isOk").GetBoolean()));
    }

    [Fact]
    public async Task A_file_that_names_what_is_not_measured_ends_with_2_and_says_what_is()
    {
        _scratch.Write("gates.json", Gates.Replace("Rooms.Say", "Rooms.Shout", StringComparison.Ordinal));
        WriteRound("one", 25);

        var run = await RunAsync("gate", "gates.json", "--results", "one");

        Assert.Equal(2, run.ExitCode);
        Assert.Equal(
            "The gate 'say / loop' names the benchmark Rooms.Shout[Players=10, Lines=2], which is not in the results. They have: Rooms.Loop[Players=10, Lines=2]; Rooms.Say[Players=10, Lines=2].",
            run.Errors.Trim());
    }

    [Theory]
    [InlineData("{ \"s\": { \"gates\": [ { \"name\": \"a\", \"numerator\": \"A.B\" } ] } }", "gates.json: the gate 'a' of 's' needs either a max or a min.")]
    [InlineData("{ \"s\": { \"gates\": [] } }", "gates.json: 's' has no gates.")]
    [InlineData("{}", "gates.json has no gates.")]
    [InlineData("{ \"s\": { \"gates\": [] }, \"s\": { \"gates\": [] } }", "gates.json, line 1: s: Duplicate properties")]
    [InlineData("{ \"s\":\n { \"gate\": [] } }", "gates.json, line 2: ")]
    [InlineData("{ \"s\": { \"gates\": [ { \"name\": \"a\", \"numerator\": \"A.B\", \"max\": 1 } ] } }", "'s' names neither a project nor results: give --project or --results.")]
    [InlineData("{ \"s\": { \"project\": \"gone.csproj\", \"gates\": [ { \"name\": \"a\", \"numerator\": \"A.B\", \"max\": 1 } ] } }", "gone.csproj is no project and no folder with one.")]
    [InlineData("{ \"s\": { \"gates\": [ null ] } }", "gates.json: a list of 's' has a null.")]
    [InlineData("{ \"s\": { \"results\": null, \"gates\": [ { \"name\": \"a\", \"numerator\": \"A.B\", \"max\": 1 } ] } }", "gates.json, line 1: s.results: ")]
    [InlineData("{ \"s\": { \"results\": [ null ], \"gates\": [ { \"name\": \"a\", \"numerator\": \"A.B\", \"max\": 1 } ] } }", "gates.json: a list of 's' has a null.")]
    [InlineData("{ \"s\": { \"classes\": null, \"gates\": [ { \"name\": \"a\", \"numerator\": \"A.B\", \"max\": 1 } ] } }", "gates.json, line 1: s.classes: ")]
    [InlineData("{ \"s\": { \"gates\": [ { \"name\": \"a\", \"numerator\": null, \"max\": 1 } ] } }", "gates.json, line 1: s.gates[0].numerator: ")]
    [InlineData("{ \"s\": { \"gates\": 7 } }", "gates.json, line 1: s.gates: ")]
    [InlineData("{ \"../s\": { \"gates\": [ { \"name\": \"a\", \"numerator\": \"A.B\", \"max\": 1 } ] } }", "gates.json: '../s' can't be a suite's name, because its results are in a file of that name.")]
    public async Task A_wrong_file_ends_with_2_and_one_line(string file, string error)
    {
        _scratch.Write("gates.json", file);

        var run = await RunAsync("gate", "gates.json");

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.Contains(error, run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }

    [Theory]
    [InlineData("gate", "gone.json")]
    [InlineData("gate", "nosuite")]
    [InlineData("gate", "--rounds", "0")]
    [InlineData("gate", "--colour", "red")]
    [InlineData("gate", "--out", "")]
    [InlineData("gate", "--project", "")]
    [InlineData("init", "gone")]
    [InlineData("compare", "HEAD")]
    [InlineData("compare", "HEAD~1", "HEAD")]
    [InlineData("measure")]
    [InlineData("--colour", "red")]
    [InlineData("--rounds", "3", "gate")]
    public async Task A_command_line_that_cannot_be_followed_ends_with_2_and_no_stack_trace(params string[] arguments)
    {
        var run = await RunAsync(arguments);

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.NotEmpty(run.Errors.Trim());
        Assert.DoesNotContain("   at ", run.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_failed_benchmark_ends_with_1()
    {
        _scratch.Write("gates.json", Gates);
        _scratch.WriteReport("one", ("Loop", "Players=10&Lines=2", 100, 400), ("Say", "Players=10&Lines=2", null, 40));

        var run = await RunAsync("gate", "gates.json", "--results", "one");

        Assert.Equal(1, run.ExitCode);
        Assert.StartsWith("Rooms.Say[Players=10, Lines=2] failed", run.Errors, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("\"max\": 1", 0, "1.00x <= 1.00x ok")]
    [InlineData("\"min\": 5", 0, "1.00x >= 5.00x short")]
    [InlineData("\"max\": 1", 40, "Infinityx <= 1.00x short")]
    public async Task Two_that_allocate_nothing_are_equal_and_more_than_nothing_is_without_a_bound(string bar, int allocated, string line)
    {
        _scratch.Write("gates.json", $$$"""{ "rooms": { "gates": [ { "name": "say", "metric": "allocated", "numerator": "Rooms.Say[Players=10]", "denominator": "Rooms.Loop[Players=10]", {{{bar}}} } ] } }""");
        _scratch.WriteReport("one", ("Loop", "Players=10", 100, 0), ("Say", "Players=10", 10, allocated));

        var run = await RunAsync("gate", "gates.json", "--results", "one", "--out", "out");

        Assert.Equal((line.EndsWith("ok", StringComparison.Ordinal) ? 0 : 1, $"say {line}", ""), (run.ExitCode, LinesOf(run.Output)[1], run.Errors));
        using var json = JsonDocument.Parse(await File.ReadAllTextAsync(_scratch.In("out", "rooms.json"), TestContext.Current.CancellationToken));
        Assert.Equal("say", json.RootElement[0].GetProperty("name").GetString());
    }

    [Fact]
    public async Task Allocated_bytes_without_a_memory_diagnoser_end_with_2()
    {
        _scratch.Write("gates.json", Gates);
        _scratch.WriteReport("one", ("Loop", "Players=10&Lines=2", 100, null), ("Say", "Players=10&Lines=2", 10, null));

        var run = await RunAsync("gate", "gates.json", "--results", "one");

        Assert.Equal((2, "The gate 'say, allocated' needs the allocated bytes of Rooms.Say[Players=10, Lines=2]: its class needs [MemoryDiagnoser]."), (run.ExitCode, run.Errors.Trim()));
    }

    [Fact]
    public async Task Gates_made_from_results_hold_for_them_and_notice_half_the_speed_or_a_byte()
    {
        WriteRound("quiet", 40);
        _scratch.WriteReport("slow", ("Loop", "Players=10&Lines=2", 100, 400), ("Say", "Players=10&Lines=2", 61, 41));

        var made = await RunAsync("init", "quiet", "--baseline", "Loop");
        var held = await RunAsync("gate", "gates.json", "--results", "quiet");
        var missed = await RunAsync("gate", "gates.json", "--results", "slow");

        Assert.True(made.ExitCode == 0, made.Text);
        Assert.Equal(["Rooms: 3 gates; times are ratios to Loop.", "gates.json written."], LinesOf(made.Output));
        Assert.True(held.ExitCode == 0, held.Text);
        Assert.Equal(1, missed.ExitCode);
        Assert.Equal(2, LinesOf(missed.Output).Count(static line => line.EndsWith("short", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task Gates_made_from_results_name_each_benchmark_where_it_is_compared()
    {
        WriteRound("quiet", 40);

        var made = await RunAsync("init", "quiet");

        Assert.True(made.ExitCode == 0, made.Text);
        Assert.DoesNotContain("\"benchmarks\"", await File.ReadAllTextAsync(_scratch.In("gates.json"), TestContext.Current.CancellationToken), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_file_that_exists_is_only_written_over_when_forced()
    {
        WriteRound("quiet", 40);
        _scratch.Write("gates.json", "mine");

        var refused = await RunAsync("init", "quiet");
        var kept = await File.ReadAllTextAsync(_scratch.In("gates.json"), TestContext.Current.CancellationToken);
        var forced = await RunAsync("init", "quiet", "--force");

        Assert.Equal((2, "mine", 0), (refused.ExitCode, kept, forced.ExitCode));
    }

    [Theory]
    [InlineData("out", "--out: out is a folder. Name a file in it.")]
    [InlineData("gone/gates.json", "--out: gone/gates.json can't be written: ")]
    [InlineData("full.json", "--out: full.json can't be written: No space left on device")]
    public async Task Gates_that_cannot_be_written_end_with_2_and_name_the_option(string path, string error)
    {
        Assert.SkipUnless(File.Exists("/dev/full"), "Only Linux has a file that stands for a full disk.");
        WriteRound("quiet", 40);
        Directory.CreateDirectory(_scratch.In("out"));
        File.CreateSymbolicLink(_scratch.In("full.json"), "/dev/full");

        var run = await RunAsync("init", "quiet", "--force", "--out", path);

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.StartsWith(error, run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }

    [Fact]
    public async Task A_file_of_gates_that_cannot_be_read_ends_with_2_and_is_named()
    {
        Assert.SkipUnless(File.Exists("/proc/self/mem"), "Only Linux has a file that nobody can read from its start.");
        File.CreateSymbolicLink(_scratch.In("gates.json"), "/proc/self/mem");

        var run = await RunAsync("gate", "gates.json");

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.StartsWith("gates.json can't be read: ", run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }

    [Theory]
    [InlineData("{ \"Benchmarks\": [ { \"Type\": null, \"Method\": \"Say\", \"Parameters\": \"\" } ] }", "is no report of BenchmarkDotNet: A benchmark has no Type.")]
    [InlineData("{}", "is no report of BenchmarkDotNet: ")]
    [InlineData(null, "can't be read: ")]
    public async Task A_report_that_is_none_ends_with_2_and_is_named(string? report, string error)
    {
        var file = _scratch.Write("one/Rooms-report.json", report ?? "");
        if (report is null)
        {
            File.Delete(file);
            File.CreateSymbolicLink(file, _scratch.In("gone"));
        }

        var run = await RunAsync("init", "one");

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.StartsWith($"{Path.Combine("one", "Rooms-report.json")} {error}", run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }

    [Fact]
    public async Task Two_benchmarks_of_one_name_are_refused()
    {
        _scratch.WriteReport("one", ("Say", "", 10, 40), ("Say", "", 11, 40));

        var run = await RunAsync("init", "one");

        Assert.Equal(2, run.ExitCode);
        Assert.Contains("two benchmarks called Rooms.Say", run.Errors, StringComparison.Ordinal);
    }

    private void WriteRound(string folder, double time) =>
        _scratch.WriteReport(folder, ("Loop", "Players=10&Lines=2", 100, 400), ("Say", "Players=10&Lines=2", time, 40));

    private Task<BenchRun> RunAsync(params string[] arguments) => BenchRun.RunAsync(_scratch.Folder, arguments);

    private static string[] LinesOf(string output) =>
        [.. output.Trim().Split('\n').Select(static line => string.Join(' ', line.Split(' ', StringSplitOptions.RemoveEmptyEntries)))];
}
