using System.Diagnostics;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>Runs one explicit test in a process of its own, whose thread pool has one worker thread: what that test does to its process harms no other test.</summary>
internal static class OwnProcess
{
    // The test's own waits end after 30 s each, and it may start a broker first.
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(4);

    public static async Task RunAsync(Type testClass, string method)
    {
        var assembly = testClass.Assembly.GetName().Name;
        var program = Path.Combine(AppContext.BaseDirectory, OperatingSystem.IsWindows() ? $"{assembly}.exe" : $"{assembly}");
        Assert.SkipUnless(File.Exists(program), $"The test assembly is no program that can be run alone: {program} does not exist.");
        using var child = Start(program, $"{testClass.FullName}.{method}");
        try
        {
            var output = await child.StandardOutput.ReadToEndAsync().WaitAsync(Limit, TimeProvider.System).ConfigureAwait(false);
            await child.WaitForExitAsync().WithinDeadline().ConfigureAwait(false);
            Assert.SkipWhen(output.Contains("Skipped: 1", StringComparison.Ordinal), "The test was skipped in its own process, as this one's server is missing there.");
            var isPassed = child.ExitCode == 0 && output.Contains("Total: 1, Errors: 0, Failed: 0", StringComparison.Ordinal);
            Assert.True(isPassed, $"The test failed in its own process, which ended with {child.ExitCode}:\n{FailureIn(output)}");
        }
        finally
        {
            child.Kill(entireProcessTree: true);
        }
    }

    // What the test runner prints before is the same for each test, and lists of failed tests show only the first lines.
    private static string FailureIn(string output) => output.IndexOf("[FAIL]", StringComparison.Ordinal) is >= 0 and var start ? output[start..] : output;

    private static Process Start(string program, string test)
    {
        var start = new ProcessStartInfo(program, ["-explicit", "only", "-method", test]) { UseShellExecute = false, RedirectStandardOutput = true };

        // The runtime reads both as hexadecimal numbers.
        start.Environment["DOTNET_ThreadPool_ForceMinWorkerThreads"] = "1";
        start.Environment["DOTNET_ThreadPool_ForceMaxWorkerThreads"] = "1";
        return Process.Start(start) ?? throw new InvalidOperationException($"{program} did not start.");
    }
}
