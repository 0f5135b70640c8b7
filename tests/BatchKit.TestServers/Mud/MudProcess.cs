using System.Globalization;
using System.Net;
using System.Text.RegularExpressions;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Mud;

/// <summary>The MUD sample as a child process. Dispose it: that kills what has not ended.</summary>
public sealed partial class MudProcess : IDisposable
{
    private const string HttpPort = "--http-port";

    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    private readonly ServerProcess _process;

    private MudProcess(ServerProcess process) => _process = process;

    /// <summary>What it has written, to either stream.</summary>
    public string Output => _process.Output;

    /// <summary>Where it listens for telnet.</summary>
    public IPEndPoint Telnet => new(IPAddress.Loopback, int.Parse(TelnetPort.Match(Output).Groups["port"].Value, CultureInfo.InvariantCulture));

    /// <summary>Where its web page is; a game without clients has none.</summary>
    public Uri Page => new(PageAddress.Match(Output).Groups["address"].Value);

    /// <summary>Starts it, on free ports unless told otherwise, and waits until it is up.</summary>
    /// <exception cref="ServerStartException">It ended instead, or took too long.</exception>
    public static async Task<MudProcess> StartAsync(params string[] arguments)
    {
        var mud = Run(arguments.Contains(HttpPort, StringComparer.Ordinal) ? arguments : [HttpPort, "0", .. arguments]);
        using var deadline = new CancellationTokenSource(Limit);
        while (!mud.Output.Contains("Ctrl-C ends it.", StringComparison.Ordinal))
        {
            if (mud._process.HasExited || deadline.IsCancellationRequested)
            {
                var output = mud.Output;
                mud.Dispose();
                throw new ServerStartException($"The MUD did not start.{Environment.NewLine}{output}");
            }

            await Task.Delay(TimeSpan.FromMilliseconds(20));
        }

        return mud;
    }

    /// <summary>Starts it with just these arguments, and does not wait.</summary>
    /// <remarks>A shell without job control starts what runs in its background with Ctrl-C ignored, which children inherit and .NET respects: it is set back.</remarks>
    public static MudProcess Run(params string[] arguments)
    {
        string[] command = ["--default-signal=INT", "dotnet", Path.Combine(AppContext.BaseDirectory, "MudServer.dll")];
        return new(ServerProcess.Start("env", [.. command, .. arguments], new Dictionary<string, string>(StringComparer.Ordinal)));
    }

    /// <summary>Connects a player's telnet program.</summary>
    public Task<TelnetClient> ConnectAsync() => TelnetClient.ConnectAsync(Telnet);

    /// <summary>Asks it to end, as a service manager does (SIGTERM).</summary>
    public void Terminate() => Signal.Send(_process.Id, Signal.Terminate);

    /// <summary>Ends it at once, as a crash does (SIGKILL).</summary>
    public void Kill() => Signal.Send(_process.Id, Signal.Kill);

    /// <summary>Asks it to end, as Ctrl-C does (SIGINT).</summary>
    public void Interrupt() => Signal.Send(_process.Id, Signal.Interrupt);

    /// <summary>Waits until it has ended, and returns its exit code.</summary>
    /// <exception cref="TimeoutException">It goes on.</exception>
    public async Task<int> WaitForExitAsync() => await _process.WaitForExitAsync(Limit)
        ? _process.ExitCode
        : throw new TimeoutException($"The MUD did not end within {Limit}.{Environment.NewLine}{Output}");

    /// <inheritdoc/>
    public void Dispose() => _process.Dispose();

    [GeneratedRegex(@"telnet 127\.0\.0\.1 (?<port>\d+)", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 1000)]
    private static partial Regex TelnetPort { get; }

    [GeneratedRegex(@"  or  (?<address>http://\S+)", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 1000)]
    private static partial Regex PageAddress { get; }
}
