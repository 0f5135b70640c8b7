using System.Diagnostics;
using BatchKit.TestServers.Processes;

namespace BatchKit.Bench.Tests;

/// <summary><c>gate</c> and <c>compare</c> build and run a user's project.</summary>
[Trait("Lane", "night: projects are built and measured")]
public sealed class ProjectTests
{
    private const string Gates = """
        {
          "rooms": {
            "project": "Bench.csproj",
            "arguments": ["--job", "dry", "--inProcess"],
            "rounds": 2,
            "gates": [
              { "name": "say / loop", "numerator": "Rooms.Say", "denominator": "Rooms.Loop", "max": 0.9 },
              { "name": "fill, allocated", "numerator": "Rooms.Fill", "metric": "allocated", "max": 1100000 }
            ]
          }
        }
        """;

    [Fact]
    public async Task A_project_is_built_run_in_rounds_and_held_to_its_gates()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.Write("bench/gates.json", Gates);

        var held = await BenchRun.RunAsync(repository.Folder, "gate", "bench/gates.json", "--out", "out");
        repository.WriteProgram(milliseconds: 200);
        var missed = await BenchRun.RunAsync(repository.Folder, "gate", "bench/gates.json", "--rounds", "1");

        Assert.True(held.ExitCode == 0, held.Text);
        Assert.Contains("round 2 of 2", held.Errors, StringComparison.Ordinal);
        Assert.Contains("| Loop ", await File.ReadAllTextAsync(repository.In("out", "rooms.md"), TestContext.Current.CancellationToken), StringComparison.Ordinal);
        Assert.True(missed.ExitCode == 1, missed.Text);
        Assert.Contains("short", missed.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_can_not_be_held_is_told_before_anything_is_measured()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.Write("bench/gates.json", Gates.Replace("Rooms.Say", "Rooms.Shout", StringComparison.Ordinal));

        var unknown = await BenchRun.RunAsync(repository.Folder, "gate", "bench/gates.json");
        repository.Write("bench/gates.json", Gates);
        repository.WriteProgram(milliseconds: 1, passesArguments: false);
        var deaf = await BenchRun.RunAsync(repository.Folder, "gate", "bench/gates.json");

        Assert.True(unknown.ExitCode == 2, unknown.Text);
        Assert.Contains("The gate 'say / loop' names the benchmark Rooms.Shout, which the project does not have. It has: ", unknown.Errors, StringComparison.Ordinal);
        Assert.DoesNotContain("round 1", unknown.Errors, StringComparison.Ordinal);
        Assert.True(deaf.ExitCode == 2, deaf.Text);
    }

    [Fact]
    public async Task A_project_that_does_not_compile_ends_with_1_and_the_compilers_words()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.Write("bench/gates.json", Gates);
        repository.Write("bench/Broken.cs", "class Broken { Gone field; }");

        var run = await BenchRun.RunAsync(repository.Folder, "gate", "bench/gates.json");

        Assert.True(run.ExitCode == 1, run.Text);
        Assert.Contains("error CS0246", run.Errors, StringComparison.Ordinal);
        Assert.DoesNotContain("   at BatchKit", run.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_commit_that_is_slower_ends_with_1_and_leaves_no_worktree()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.WriteProgram(milliseconds: 200);
        await repository.CommitAsync("slower");

        var slower = await CompareAsync(repository, "HEAD~1", "HEAD");
        var faster = await CompareAsync(repository, "HEAD", "HEAD~1");

        Assert.True(slower.ExitCode == 1, slower.Text);
        Assert.Matches(@"\| Rooms\.Say \| [0-9.]+ \| [0-9.]+ to [0-9.]+ \| 50\.0 % \| slower \|", slower.Output);
        Assert.True(faster.ExitCode == 0, faster.Text);
        Assert.Matches(@"\| Rooms\.Say \| .* \| faster \|", faster.Output);
        Assert.Single((await repository.GitAsync("worktree", "list")).Trim().Split('\n'));
    }

    [Fact]
    public async Task A_commit_that_is_not_there_ends_with_2()
    {
        using var repository = await BenchRepository.CreateAsync();

        var run = await CompareAsync(repository, "HEAD", "gone");

        Assert.Equal(2, run.ExitCode);
        Assert.EndsWith("has no commit gone.", run.Errors.Trim(), StringComparison.Ordinal);
        Assert.Single((await repository.GitAsync("worktree", "list")).Trim().Split('\n'));
    }

    [Fact]
    public async Task What_a_comparison_says_of_its_output_is_there_to_read()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.WriteProgram(milliseconds: 1, passesArguments: false);
        await repository.CommitAsync("deaf");

        var run = await CompareAsync(repository, "HEAD", "HEAD");

        var folder = repository.In("BenchmarkDotNet.Artifacts", "compare", "before-1");
        Assert.True(run.ExitCode == 2, run.Text);
        Assert.Contains($"wrote no report to {folder}; its output is there.", run.Errors, StringComparison.Ordinal);
        Assert.True(File.Exists(Path.Combine(folder, "output.txt")), run.Text);
    }

    [Fact]
    public async Task After_a_Ctrl_C_no_worktree_and_no_program_is_left()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.WriteProgram(milliseconds: 600_000);
        await repository.CommitAsync("endless");

        using var process = StartInterruptible(repository.Folder, "compare", "HEAD~1", "HEAD", "--filter", "*Say", "--rounds", "2", "--pass=--job=dry", "--pass=--inProcess");
        var errors = process.StandardError;
        while (await errors.ReadLineAsync(TestContext.Current.CancellationToken).AsTask().WaitAsync(TimeSpan.FromMinutes(5), TestContext.Current.CancellationToken) is { } line && line != "round 1 of 2")
            Assert.DoesNotContain("ended with", line, StringComparison.Ordinal);
        Signal.Send(process.Id, Signal.Interrupt);
        await process.WaitForExitAsync(TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Equal(130, process.ExitCode);
        Assert.Single((await repository.GitAsync("worktree", "list")).Trim().Split('\n'));
    }

    private static Task<BenchRun> CompareAsync(BenchRepository repository, string before, string after) =>
        BenchRun.RunAsync(repository.Folder, "compare", before, after, "--filter", "*Say", "--rounds", "2", "--pass=--job=dry", "--pass=--inProcess");

    // A shell without job control starts what runs in its background with Ctrl-C ignored, which children inherit and .NET respects: it is set back.
    private static Process StartInterruptible(string folder, params string[] arguments) => Process.Start(new ProcessStartInfo("env", ["--default-signal=INT", "dotnet", BenchRun.Program, .. arguments])
    {
        WorkingDirectory = folder,
        UseShellExecute = false,
        RedirectStandardError = true,
        RedirectStandardInput = true,
    })!;
}
