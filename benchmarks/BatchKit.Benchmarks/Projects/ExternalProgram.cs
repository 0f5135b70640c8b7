using System.ComponentModel;
using System.Diagnostics;
using System.Text;

namespace BatchKit.Benchmarks.Projects;

/// <summary>Runs another program to its end.</summary>
internal static class ExternalProgram
{
    private const int LastLines = 20;

    /// <returns>What it wrote to its output.</returns>
    /// <exception cref="InvalidOperationException">It ended with another code than 0; the message has its last lines.</exception>
    /// <exception cref="UsageException">It is not installed.</exception>
    public static async Task<string> RunAsync(string folder, string program, IEnumerable<string> arguments, CancellationToken cancellationToken)
    {
        var start = new ProcessStartInfo(program, arguments) { WorkingDirectory = folder, UseShellExecute = false, RedirectStandardOutput = true, RedirectStandardError = true, RedirectStandardInput = true };

        // A compiler or a build node that lived on would keep the pipes open, and files of a folder that is to be removed.
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        start.Environment["UseSharedCompilation"] = "false";
        start.Environment["DOTNET_NOLOGO"] = "1";
        using var process = Start(start);
        process.StandardInput.Close();
        var text = new StringBuilder();
        try
        {
            await Task.WhenAll(CopyAsync(process.StandardOutput, text, cancellationToken), CopyAsync(process.StandardError, text, cancellationToken));
            await process.WaitForExitAsync(cancellationToken);
        }
        catch (OperationCanceledException)
        {
            process.Kill(entireProcessTree: true);
            await process.WaitForExitAsync(CancellationToken.None);
            throw;
        }

        var output = text.ToString();
        return process.ExitCode == 0
            ? output
            : throw new InvalidOperationException($"'{program} {string.Join(' ', start.ArgumentList)}' ended with {process.ExitCode}:\n{TailOf(output)}");
    }

    private static Process Start(ProcessStartInfo start)
    {
        try
        {
            return Process.Start(start) ?? throw new InvalidOperationException($"'{start.FileName}' did not start.");
        }
        catch (Win32Exception failure)
        {
            throw new UsageException($"'{start.FileName}' can't be started. Install it, or add its folder to the PATH: {failure.Message}");
        }
    }

    private static string TailOf(string output) => string.Join('\n', output.TrimEnd().Split('\n').TakeLast(LastLines));

    private static async Task CopyAsync(StreamReader reader, StringBuilder text, CancellationToken cancellationToken)
    {
        while (await reader.ReadLineAsync(cancellationToken) is { } line)
        {
            lock (text)
                text.Append(line).Append('\n');
        }
    }
}
