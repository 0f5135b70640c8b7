using System.Globalization;
using System.Net;
using System.Text.RegularExpressions;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Mud;

/// <summary>The MUD sample as a child process. Dispose it: that kills what has not ended.</summary>
public sealed partial class MudProcess : SampleProcess
{
    private const string HttpPort = "--http-port";

    private MudProcess(IEnumerable<string> arguments)
        : base("MudServer", arguments)
    {
    }

    /// <summary>Where it listens for telnet.</summary>
    public IPEndPoint Telnet => new(IPAddress.Loopback, int.Parse(TelnetPort.Match(Output).Groups["port"].Value, CultureInfo.InvariantCulture));

    /// <summary>Where its web page is; a game without clients has none.</summary>
    public Uri Page => new(PageAddress.Match(Output).Groups["address"].Value);

    /// <summary>Where its counters are.</summary>
    public Uri Statistics => new(StatisticsAddress.Match(Output).Groups["address"].Value);

    /// <summary>Starts it, on free ports unless told otherwise, and waits until it is up.</summary>
    /// <exception cref="ServerStartException">It ended instead, or took too long.</exception>
    public static Task<MudProcess> StartAsync(params string[] arguments) =>
        WhenUpAsync(Run(arguments.Contains(HttpPort, StringComparer.Ordinal) ? arguments : [HttpPort, "0", .. arguments]), "Ctrl-C ends it.");

    /// <summary>Starts it with just these arguments, and does not wait.</summary>
    public static MudProcess Run(params string[] arguments) => new(arguments);

    /// <summary>Connects a player's telnet program.</summary>
    public Task<TelnetClient> ConnectAsync() => TelnetClient.ConnectAsync(Telnet);

    [GeneratedRegex(@"telnet 127\.0\.0\.1 (?<port>\d+)", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex TelnetPort { get; }

    [GeneratedRegex(@"Counters: (?<address>http://\S+)", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex StatisticsAddress { get; }

    [GeneratedRegex(@"  or  (?<address>http://\S+)", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex PageAddress { get; }
}
