using System.Diagnostics;

namespace BatchKit.Architecture.Tests;

/// <summary>Runs the SDK's commands, and programs that they made.</summary>
internal static class DotnetCommand
{
    // Against a hang only.
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(10);

    public static async Task<(int ExitCode, string Text)> RunAsync(string program, params string[] arguments)
    {
        var start = new ProcessStartInfo(program, arguments) { UseShellExecute = false, RedirectStandardOutput = true, RedirectStandardError = true };
        using var process = Process.Start(start)!;
        using var limit = new CancellationTokenSource(Limit);
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
