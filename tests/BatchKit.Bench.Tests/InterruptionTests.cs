using System.Diagnostics;
using System.Globalization;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.Processes;

namespace BatchKit.Bench.Tests;

/// <summary>Ctrl-C and SIGTERM while a suite is measured: no process is left.</summary>
[Trait("Lane", "night: suites are begun")]
public sealed class InterruptionTests : IDisposable
{
    private readonly Scratch _scratch = new();

    public void Dispose() => _scratch.Dispose();

    [Theory]
    [InlineData(Signal.Interrupt, 130, "run", "broadcast", "--clients", "20", "--count", "10000")]
    [InlineData(Signal.Terminate, 143, "run", "broadcast", "--clients", "20", "--count", "10000")]
    [InlineData(Signal.Terminate, 143, "gate", "playhouse")]
    [InlineData(Signal.Terminate, 143, "run", "rhythm", "--count", "100")]
    public async Task A_signal_ends_the_run_and_all_processes_that_it_started(int signal, int exitCode, params string[] arguments)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The load reads with epoll.");
        if (arguments.Contains("rhythm"))
            Assert.SkipWhen(PostgresServer.WhyNotInstalled is not null, PostgresServer.WhyNotInstalled ?? "");
        using var process = Start(arguments);
        while (await process.StandardError.ReadLineAsync(TestContext.Current.CancellationToken).AsTask().WithinDeadline() is { } line && !line.StartsWith("round 1 of ", StringComparison.Ordinal))
            Assert.DoesNotContain("ended with", line, StringComparison.Ordinal);
        var children = FindDescendants(process.Id);

        Signal.Send(process.Id, signal);
        var errors = await process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await process.WaitForExitAsync(TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Equal((exitCode, "Interrupted."), (process.ExitCode, errors.Trim().Split('\n')[^1]));
        Assert.NotEmpty(children);
        await Until.TrueAsync(() => !children.Any(Signal.IsAlive));
    }

    // A shell without job control starts what runs in its background with Ctrl-C ignored, which children inherit and .NET respects: it is set back.
    private Process Start(string[] arguments) => Process.Start(new ProcessStartInfo("env", ["--default-signal=INT", "dotnet", BenchRun.Program, .. arguments])
    {
        WorkingDirectory = _scratch.Folder,
        UseShellExecute = false,
        RedirectStandardError = true,
        RedirectStandardInput = true,
    })!;

    private static int[] FindDescendants(int parent)
    {
        var parents = new Dictionary<int, int>();
        foreach (var folder in Directory.GetDirectories("/proc"))
        {
            if (int.TryParse(Path.GetFileName(folder), CultureInfo.InvariantCulture, out var process) && ParentOf(process) is { } its)
                parents[process] = its;
        }

        return [.. parents.Keys.Where(process => IsBelow(process, parent))];

        bool IsBelow(int process, int ancestor) => parents.TryGetValue(process, out var its) && (its == ancestor || IsBelow(its, ancestor));
    }

    /// <returns>Null when it has ended meanwhile.</returns>
    private static int? ParentOf(int process)
    {
        try
        {
            // The program's name is in parentheses, and may have any character.
            var text = File.ReadAllText($"/proc/{process}/stat");
            return int.Parse(text[(text.LastIndexOf(')') + 2)..].Split(' ')[1], CultureInfo.InvariantCulture);
        }
        catch (IOException)
        {
            return null;
        }
    }
}
