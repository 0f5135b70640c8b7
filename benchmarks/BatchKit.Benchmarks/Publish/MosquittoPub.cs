using System.Diagnostics;
using System.Text;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.TestServers.Processes;

namespace BatchKit.Benchmarks.Publish;

/// <summary><c>mosquitto_pub -l</c>, fed the same payloads over its standard input. A run is a process, so that only what arrived first and last tells its rate.</summary>
internal sealed class MosquittoPub : IPublisher
{
    private const string Program = "mosquitto_pub";
    private const int LinesAtOnce = 500;

    private static readonly byte[] Lines =
        Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat($"{Encoding.ASCII.GetString(PublishShape.MakePayload())}\n", LinesAtOnce)));

    /// <summary>Why it can't run here; null when it can.</summary>
    public static string? WhyMissing => InstalledProgram.Find(Program) is null ? $"{Program} is not installed (apt-get install mosquitto-clients)" : null;

    public PublishUsage Run(PublishTarget target, int messages, Func<long>? countArrived = null)
    {
        using var process = Start(target);
        var input = process.StandardInput.BaseStream;
        for (var left = messages; left > 0; left -= LinesAtOnce)
            input.Write(Lines.AsSpan(0, Lines.Length / LinesAtOnce * Math.Min(left, LinesAtOnce)));
        process.StandardInput.Close();
        process.WaitForExit();
        return process.ExitCode == 0 ? default : throw new InvalidOperationException($"{Program} ended with {process.ExitCode}.");
    }

    public void Dispose()
    {
    }

    private static IEnumerable<string> AccessArguments()
    {
        string[] user = PublishTarget.UserName is { } userName ? ["-u", userName] : [];
        string[] password = PublishTarget.Password is { } secret ? ["-P", secret] : [];
        string[] trust = RunSettings.AuthorityFile is { } file ? ["--cafile", file] : PublishTarget.IsSecure ? ["--tls-use-os-certs"] : [];
        return [.. user, .. password, .. trust];
    }

    private static Process Start(PublishTarget target)
    {
        var start = new ProcessStartInfo(InstalledProgram.Find(Program)!) { UseShellExecute = false, RedirectStandardInput = true };
        string[] arguments = ["-h", PublishTarget.Host, "-p", $"{target.Port}", "-V", "mqttv5", "-q", $"{target.Shape.Quality}", "-t", PublishShape.TopicAt(0), "-l"];
        foreach (var argument in arguments.Concat(AccessArguments()).Concat(target.Shape.PropertyPairs.SelectMany(pair => (string[])["-D", "publish", "user-property", pair.Key, pair.Value])))
            start.ArgumentList.Add(argument);
        return Process.Start(start) ?? throw new InvalidOperationException($"{Program} did not start.");
    }
}
