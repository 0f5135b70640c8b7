using System.Diagnostics;

namespace BatchKit.Architecture.Tests;

public sealed class TrimTests
{
    private static readonly TimeSpan PublishLimit = TimeSpan.FromMinutes(5);

    [Fact]
    public async Task The_core_works_trimmed_and_self_contained_and_publishes_without_a_warning()
    {
        var folder = Directory.CreateTempSubdirectory("batchkit-trim-");
        try
        {
            // Its own artifacts folder: nothing that the build at large made or uses is touched.
            var published = await RunAsync("dotnet", "publish", Repository.In("tests", "BatchKit.TrimSmoke"), "--configuration", "Release",
                "--use-current-runtime", "--self-contained", "--artifacts-path", folder.FullName, "--output", Path.Combine(folder.FullName, "app"),
                "-nodeReuse:false", "-p:UseSharedCompilation=false");
            Assert.True(published.ExitCode == 0, published.Text);
            Assert.DoesNotContain("warning", published.Text, StringComparison.OrdinalIgnoreCase);

            var ran = await RunAsync(Path.Combine(folder.FullName, "app", OperatingSystem.IsWindows() ? "BatchKit.TrimSmoke.exe" : "BatchKit.TrimSmoke"));

            Assert.True(ran.ExitCode == 0, ran.Text);
            Assert.Contains("The trimmed core works.", ran.Text, StringComparison.Ordinal);
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    private static async Task<(int ExitCode, string Text)> RunAsync(string program, params string[] arguments)
    {
        var start = new ProcessStartInfo(program, arguments) { UseShellExecute = false, RedirectStandardOutput = true, RedirectStandardError = true };
        using var process = Process.Start(start)!;
        using var limit = new CancellationTokenSource(PublishLimit);
        try
        {
            var output = process.StandardOutput.ReadToEndAsync(limit.Token);
            var errors = process.StandardError.ReadToEndAsync(limit.Token);
            await process.WaitForExitAsync(limit.Token);
            return (process.ExitCode, await output + await errors);
        }
        catch (OperationCanceledException)
        {
            process.Kill(entireProcessTree: true);
            throw;
        }
    }
}
