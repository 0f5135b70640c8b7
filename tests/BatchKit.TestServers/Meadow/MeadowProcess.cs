using System.Text.RegularExpressions;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Meadow;

/// <summary>The game sample as a child process. Dispose it: that kills what has not ended.</summary>
public sealed partial class MeadowProcess : SampleProcess
{
    private MeadowProcess()
        : base("Meadow", ["--urls", "http://127.0.0.1:0"])
    {
    }

    /// <summary>Where its page is.</summary>
    public Uri Page => new(Address.Match(Output).Groups["address"].Value);

    /// <summary>Starts it on a free port, and waits until it is up.</summary>
    /// <exception cref="ServerStartException">It ended instead, or took too long.</exception>
    public static Task<MeadowProcess> StartAsync() => WhenUpAsync(new MeadowProcess(), "Application started.");

    [GeneratedRegex(@"Now listening on: (?<address>http://\S+)", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Address { get; }
}
