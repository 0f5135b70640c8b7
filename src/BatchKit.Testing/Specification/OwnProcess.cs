using System.Diagnostics;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>Runs explicit tests in a process of their own, whose thread pool has one worker thread: what they do to their process harms no other test.</summary>
internal static class OwnProcess
{
    // The tests' own waits end after a minute each, and they may start a broker first.
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(5);

    public static async Task RunAsync(Type testClass, params string[] methods)
    {
        var assembly = testClass.Assembly.GetName().Name;
        var program = Path.Combine(AppContext.BaseDirectory, OperatingSystem.IsWindows() ? $"{assembly}.exe" : $"{assembly}");
        Assert.SkipUnless(File.Exists(program), $"The test assembly is no program that can be run alone: {program} does not exist.");
        using var child = Start(program, methods.SelectMany(method => (string[])["-method", $"{testClass.FullName}.{method}"]));
        try
        {
            var output = await child.StandardOutput.ReadToEndAsync().WaitAsync(Limit, TimeProvider.System).ConfigureAwait(false);
            await child.WaitForExitAsync().WithinDeadline().ConfigureAwait(false);
            var isPassed = child.ExitCode == 0 && output.Contains($"Total: {methods.Length}, Errors: 0, Failed: 0", StringComparison.Ordinal);
            Assert.True(isPassed, $"A test failed in its own process, which ended with {child.ExitCode}:\n{FailureIn(output)}");
            Assert.SkipUnless(output.Contains("Skipped: 0", StringComparison.Ordinal), "A test was skipped in its own process: its server is missing there.");
        }
        finally
        {
            child.Kill(entireProcessTree: true);
        }
    }

    // What the test runner prints before is the same for each test, and lists of failed tests show only the first lines.
    private static string FailureIn(string output) => output.IndexOf("[FAIL]", StringComparison.Ordinal) is >= 0 and var start ? output[start..] : output;

    private static Process Start(string program, IEnumerable<string> tests)
    {
        var start = new ProcessStartInfo(program, ["-explicit", "only", .. tests]) { UseShellExecute = false, RedirectStandardOutput = true };

        // The runtime reads both as hexadecimal numbers.
        start.Environment["DOTNET_ThreadPool_ForceMinWorkerThreads"] = "1";
        start.Environment["DOTNET_ThreadPool_ForceMaxWorkerThreads"] = "1";
        return Process.Start(start) ?? throw new InvalidOperationException($"{program} did not start.");
    }
}
