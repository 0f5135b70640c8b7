namespace BatchKit.Architecture.Tests;

[Trait("Lane", "night: publishing a trimmed program takes a minute")]
public sealed class TrimTests
{
    private const int RestoreTries = 3;

    [Fact]
    public async Task The_core_works_trimmed_and_self_contained_and_publishes_without_a_warning()
    {
        var folder = Directory.CreateTempSubdirectory("batchkit-trim-");
        try
        {
            // Its own artifacts folder: nothing that the build at large made or uses is touched.
            await RestoreAsync(folder.FullName);
            var published = await DotnetCommand.RunAsync("dotnet", "publish", Repository.In("tests", "BatchKit.TrimSmoke"), "--no-restore", "--configuration", "Release",
                "--use-current-runtime", "--self-contained", "--artifacts-path", folder.FullName, "--output", Path.Combine(folder.FullName, "app"),
                "-nodeReuse:false", "-p:UseSharedCompilation=false", "-p:RunAnalyzers=false");
            Assert.True(published.ExitCode == 0, published.Text);
            Assert.DoesNotContain("warning", published.Text, StringComparison.OrdinalIgnoreCase);

            var ran = await DotnetCommand.RunAsync(Path.Combine(folder.FullName, "app", OperatingSystem.IsWindows() ? "BatchKit.TrimSmoke.exe" : "BatchKit.TrimSmoke"));

            Assert.True(ran.ExitCode == 0, ran.Text);
            Assert.Contains("The trimmed core works.", ran.Text, StringComparison.Ordinal);
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    // Of all tests only this one needs packages from the network when it runs, the runtime's and the trimmer's: a registry that stumbles is not its failure.
    private static async Task RestoreAsync(string folder)
    {
        for (var tries = 1; ; tries++)
        {
            var restored = await DotnetCommand.RunAsync("dotnet", "restore", Repository.In("tests", "BatchKit.TrimSmoke"), "--use-current-runtime", "--artifacts-path", folder,
                "-p:SelfContained=true", "-p:Configuration=Release", "-p:NuGetAudit=false", "-nodeReuse:false");
            if (restored.ExitCode == 0)
                return;
            Assert.True(tries < RestoreTries, restored.Text);
        }
    }
}
