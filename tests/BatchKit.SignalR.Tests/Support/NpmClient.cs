using System.Diagnostics;
using BatchKit.TestServers.Processes;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>The client for browsers, <c>@microsoft/signalr</c>, which npm fetches into a temporary folder.</summary>
public sealed class NpmClient : IDisposable
{
    private const string Program = "npm";
    private const string Package = "@microsoft/signalr@10.0.11";

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-signalr-");

    private NpmClient()
    {
    }

    /// <summary>The script that a page includes.</summary>
    public string Script => Path.Combine(_folder.FullName, "node_modules", "@microsoft", "signalr", "dist", "browser", "signalr.js");

    /// <summary>Fetches it; skips the test where npm is missing or has no registry.</summary>
    public static async Task<NpmClient> FetchAsync()
    {
        Assert.SkipWhen(InstalledProgram.Find(Program) is null, $"The program {Program} is not installed (apt-get install {Program}).");
        var client = new NpmClient();
        if (await client.InstallAsync() is not { } reason)
            return client;
        client.Dispose();
        Assert.Skip(reason);
        return client;
    }

    public void Dispose() => _folder.Delete(recursive: true);

    /// <returns>Why it can't be had here; null when it can.</returns>
    private async Task<string?> InstallAsync()
    {
        var start = new ProcessStartInfo(InstalledProgram.Find(Program)!)
        {
            ArgumentList = { "install", "--prefix", _folder.FullName, "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--silent", Package },
            UseShellExecute = false,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        using var process = Process.Start(start)!;
        try
        {
            var output = Task.WhenAll(process.StandardOutput.ReadToEndAsync(), process.StandardError.ReadToEndAsync());
            await process.WaitForExitAsync().WithinDeadline();
            var lines = await output.WithinDeadline();
            return process.ExitCode == 0 ? null : $"npm could not fetch {Package}: {string.Concat(lines).Trim()}";
        }
        catch (TimeoutException)
        {
            process.Kill(entireProcessTree: true);
            return $"npm did not fetch {Package} within {Deadline.Time.TotalSeconds} s.";
        }
    }
}
