using System.Diagnostics;
using BatchKit.TestServers.Processes;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>graphile-worker (MIT), fetched by npm into a temporary folder, with our script that drives it.</summary>
internal sealed class GraphileProgram : IDisposable
{
    private const string Package = "graphile-worker@0.17.3";
    private const string Script = "graphile.mjs";
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-peer-");

    private GraphileProgram()
    {
        File.Copy(Path.Combine(AppContext.BaseDirectory, "peers", Script), Path.Combine(_folder.FullName, Script));
    }

    public string ScriptPath => Path.Combine(_folder.FullName, Script);

    public static string NodePath => InstalledProgram.Find("node")!;

    /// <summary>Fetches it.</summary>
    /// <returns>Why it can't be had here; null when it can.</returns>
    public static string? Install(out GraphileProgram? program)
    {
        program = null;
        if (InstalledProgram.Find("npm") is not { } npm || InstalledProgram.Find("node") is null)
            return "node and npm are not installed, which graphile-worker needs";
        var made = new GraphileProgram();
        if (made.Fetch(npm) is { } reason)
        {
            made.Dispose();
            return reason;
        }

        program = made;
        return null;
    }

    public void Dispose() => _folder.Delete(recursive: true);

    private string? Fetch(string npm)
    {
        var start = new ProcessStartInfo(npm)
        {
            ArgumentList = { "install", "--prefix", _folder.FullName, "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--silent", Package },
            UseShellExecute = false,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        using var process = Process.Start(start) ?? throw new InvalidOperationException("npm did not start.");
        process.BeginOutputReadLine();
        process.BeginErrorReadLine();
        if (!process.WaitForExit(Limit))
        {
            process.Kill(entireProcessTree: true);
            process.WaitForExit();
            return $"npm did not fetch {Package} within {Limit.TotalSeconds} s";
        }

        return process.ExitCode == 0 ? null : $"npm could not fetch {Package}";
    }
}
