using System.Diagnostics;
using BatchKit.TestServers.Processes;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>One run of the program <c>batchkit</c>, without a terminal.</summary>
/// <param name="ExitCode">What it ended with.</param>
/// <param name="Output">What it wrote to its output.</param>
/// <param name="Errors">What it wrote to its error stream.</param>
internal sealed record ToolRun(int ExitCode, string Output, string Errors)
{
    public const string ConnectionVariable = "BATCHKIT_CONNECTION";

    public static string ProgramPath => BuiltProgram.PathOf("BatchKit.Tool");

    /// <summary>Runs it to its end.</summary>
    /// <param name="connection">What the environment has as connection; nothing when null.</param>
    /// <param name="arguments">Its arguments.</param>
    public static Task<ToolRun> RunAsync(string? connection, params string[] arguments) => RunAsync(connection, "dotnet", [ProgramPath, .. arguments]);

    /// <summary>Runs it through a shell, which sends its output elsewhere.</summary>
    /// <param name="connection">What the environment has as connection.</param>
    /// <param name="arguments">Its arguments and where its output goes, as a shell reads them.</param>
    public static Task<ToolRun> RunInShellAsync(string connection, string arguments) => RunAsync(connection, "sh", "-c", $"dotnet '{ProgramPath}' {arguments}");

    private static async Task<ToolRun> RunAsync(string? connection, string program, params string[] arguments)
    {
        var start = new ProcessStartInfo(program)
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            UseShellExecute = false,
        };
        foreach (var argument in arguments)
            start.ArgumentList.Add(argument);
        start.Environment.Remove(ConnectionVariable);
        if (connection is not null)
            start.Environment[ConnectionVariable] = connection;
        using var process = Process.Start(start)!;
        try
        {
            process.StandardInput.Close();
            var output = process.StandardOutput.ReadToEndAsync();
            var errors = process.StandardError.ReadToEndAsync();
            await process.WaitForExitAsync().WithinDeadline();
            return new ToolRun(process.ExitCode, await output, await errors);
        }
        finally
        {
            if (!process.HasExited)
                process.Kill(entireProcessTree: true);
        }
    }
}
