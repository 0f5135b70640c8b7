using System.Text.RegularExpressions;

namespace BatchKit.Bench.Tests;

/// <summary>The workflow of docs/benchmarks-in-ci.md, run line by line in a repository made for it, with the packed tool from a feed of its own.</summary>
[Trait("Lane", "night: the tool is packed, and projects are built and measured")]
public sealed partial class WorkflowTests
{
    // Higher than any version that was released.
    private const string Version = "9999.0.0";

    [Fact]
    public async Task The_workflow_that_one_can_copy_runs_and_fails_for_a_slower_commit()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.Write(".gitignore", "bin/\nobj/\nBenchmarkDotNet.Artifacts/\n.tools/\nresults/\nfeed/\nnuget.config\n");
        repository.Write("bench/gates.json", """
            {
              "rooms": {
                "project": "Bench.csproj",
                "arguments": ["--job", "dry", "--inProcess"],
                "rounds": 1,
                "gates": [{ "name": "say / loop", "numerator": "Rooms.Say", "denominator": "Rooms.Loop", "max": 0.9 }]
              }
            }
            """);
        repository.Write("nuget.config", """<configuration><packageSources><add key="feed" value="feed" /></packageSources></configuration>""");
        await repository.CommitAsync("gates");
        await repository.GitAsync("update-ref", "refs/remotes/origin/main", "HEAD");
        await PackAsync(repository.In("feed"));
        var (install, gate, compare, summary) = await ReadWorkflowAsync();

        await ExpectAsync(repository, 0, install, "batchkit-bench");
        await ExpectAsync(repository, 0, gate, "ok");
        repository.WriteProgram(milliseconds: 400);
        await repository.CommitAsync("slower");
        await ExpectAsync(repository, 1, gate, "short");
        await ExpectAsync(repository, 1, compare, "slower");
        await ExpectAsync(repository, 0, summary, "");

        var page = await File.ReadAllTextAsync(repository.In("summary.md"), TestContext.Current.CancellationToken);
        Assert.Contains("| say / loop |", page, StringComparison.Ordinal);
        Assert.Contains("| Rooms.Say |", page, StringComparison.Ordinal);
    }

    private static async Task<(string Install, string Gate, string Compare, string Summary)> ReadWorkflowAsync()
    {
        var page = await File.ReadAllTextAsync(Path.Combine(AppContext.BaseDirectory, "benchmarks-in-ci.md"), TestContext.Current.CancellationToken);
        var commands = RunLine.Matches(page).Select(static match => match.Groups["command"].Value).ToArray();
        Assert.Equal(4, commands.Length);
        return (commands[0], commands[1], commands[2], commands[3]);
    }

    // As the workflow's runner starts a step.
    private static async Task ExpectAsync(BenchRepository repository, int exitCode, string command, string text)
    {
        string[] variables = ["ROUNDS=2", "JOB=dry", "GITHUB_BASE_REF=main", $"GITHUB_STEP_SUMMARY={repository.In("summary.md")}"];
        var run = await BenchRun.RunProgramAsync(repository.Folder, "env", [.. variables, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]);

        Assert.True(run.ExitCode == exitCode, $"{command}\n{run.Text}");
        Assert.Contains(text, run.Text, StringComparison.Ordinal);
    }

    private static async Task PackAsync(string feed)
    {
        var built = new FileInfo(BenchRun.Program).Directory!;
        var project = built.Parent!.Parent!.Parent!.FullName;
        var run = await BenchRun.RunProgramAsync(project, "dotnet", "pack", "--no-build", "--configuration", built.Parent.Name, "--output", feed, $"-p:Version={Version}", "-nodeReuse:false");
        Assert.True(run.ExitCode == 0, run.Text);
    }

    [GeneratedRegex(@"^      - run: (?<command>.+)$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex RunLine { get; }
}
