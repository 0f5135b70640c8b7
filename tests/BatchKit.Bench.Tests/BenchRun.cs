using System.Diagnostics;
using BatchKit.TestServers.Processes;

namespace BatchKit.Bench.Tests;

/// <summary>One run of a program to its end.</summary>
/// <param name="ExitCode">What it ended with.</param>
/// <param name="Output">What it wrote to its output.</param>
/// <param name="Errors">What it wrote to its error stream.</param>
internal sealed record BenchRun(int ExitCode, string Output, string Errors)
{
    // Against a hang only: the longest builds two projects and runs them in turn.
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(10);

    /// <summary>Both streams, for a failed assertion.</summary>
    public string Text => $"{Output}{Errors}";

    /// <summary>The program as it was built beside the tests.</summary>
    public static string Program => BuiltProgram.PathOf("BatchKit.Benchmarks");

    /// <summary>Runs <c>batchkit-bench</c> as it was built.</summary>
    public static Task<BenchRun> RunAsync(string folder, params string[] arguments) => RunProgramAsync(folder, "dotnet", [Program, .. arguments]);

    /// <summary>Runs <c>batchkit-bench</c> where no other program is found.</summary>
    public static Task<BenchRun> RunAloneAsync(string folder, params string[] arguments) => RunProgramAsync(folder, "dotnet", [Program, .. arguments], path: folder);

    public static Task<BenchRun> RunProgramAsync(string folder, string program, params string[] arguments) => RunProgramAsync(folder, program, arguments, path: null);

    private static async Task<BenchRun> RunProgramAsync(string folder, string program, string[] arguments, string? path)
    {
        var start = new ProcessStartInfo(program, arguments) { WorkingDirectory = folder, UseShellExecute = false, RedirectStandardOutput = true, RedirectStandardError = true, RedirectStandardInput = true };

        // A build node that lived on would keep the streams open.
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        start.Environment["UseSharedCompilation"] = "false";
        if (path is not null)
            start.Environment["PATH"] = path;
        using var process = Process.Start(start)!;
        using var limit = new CancellationTokenSource(Limit);
        try
        {
            process.StandardInput.Close();
            var output = process.StandardOutput.ReadToEndAsync(limit.Token);
            var errors = process.StandardError.ReadToEndAsync(limit.Token);
            await process.WaitForExitAsync(limit.Token);
            return new BenchRun(process.ExitCode, await output, await errors);
        }
        finally
        {
            if (!process.HasExited)
                process.Kill(entireProcessTree: true);
        }
    }
}
