using System.Diagnostics;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Mosquitto;

/// <summary>Runs <c>mosquitto_pub</c> and <c>mosquitto_sub</c>, the clients that are not ours, against a broker's plain port.</summary>
public static class MosquittoProgram
{
    private static readonly TimeSpan RunLimit = TimeSpan.FromSeconds(60);

    /// <summary>Why they can't be run here; null when they can.</summary>
    public static string? WhyMissing =>
        InstalledProgram.Find("mosquitto_pub") is not null ? null : "mosquitto_pub is not installed (apt-get install mosquitto-clients).";

    /// <summary>Publishes with <c>mosquitto_pub</c>.</summary>
    /// <param name="server">The broker.</param>
    /// <param name="input">What it reads, for the options -l and -s.</param>
    /// <param name="arguments">Its options, beside host and port.</param>
    /// <exception cref="InvalidOperationException">It failed.</exception>
    public static Task PublishAsync(MosquittoServer server, string input, params string[] arguments) => RunAsync("mosquitto_pub", server, input, arguments);

    /// <summary>Subscribes with <c>mosquitto_sub</c> and returns what it wrote until it ended, as its options -C or -W say.</summary>
    /// <param name="server">The broker.</param>
    /// <param name="arguments">Its options, beside host and port.</param>
    /// <exception cref="InvalidOperationException">It failed.</exception>
    public static Task<string> SubscribeAsync(MosquittoServer server, params string[] arguments) => RunAsync("mosquitto_sub", server, "", arguments);

    private static async Task<string> RunAsync(string name, MosquittoServer server, string input, string[] arguments)
    {
        var start = new ProcessStartInfo(InstalledProgram.Find(name) ?? throw new InvalidOperationException(WhyMissing))
        {
            UseShellExecute = false,
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        foreach (var argument in (string[])["-h", server.Host, "-p", $"{server.Port}", .. arguments])
            start.ArgumentList.Add(argument);
        using var process = Process.Start(start)!;
        using var deadline = new CancellationTokenSource(RunLimit);
        var output = process.StandardOutput.ReadToEndAsync(deadline.Token);
        var errors = process.StandardError.ReadToEndAsync(deadline.Token);
        try
        {
            await process.StandardInput.WriteAsync(input.AsMemory(), deadline.Token);
            process.StandardInput.Close();
            await process.WaitForExitAsync(deadline.Token);
        }
        finally
        {
            if (!process.HasExited)
                process.Kill();
        }

        // mosquitto_sub ends with 27 when the time of -W is over.
        return process.ExitCode is 0 or 27 ? await output : throw new InvalidOperationException($"{name} ended with {process.ExitCode}: {await errors}");
    }
}
