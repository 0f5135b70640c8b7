using System.Globalization;
using System.Text.RegularExpressions;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.SensorHub;

/// <summary>The SensorHub sample as a child process. Dispose it: that kills what has not ended.</summary>
public sealed class SensorHubProcess : SampleProcess
{
    private static readonly TimeSpan MatchLimit = TimeSpan.FromSeconds(1);

    private SensorHubProcess(IEnumerable<string> arguments)
        : base("SensorHub", arguments)
    {
    }

    /// <summary>Starts it with just these arguments, and does not wait.</summary>
    public static SensorHubProcess Run(params string[] arguments) => new(arguments);

    /// <summary>Waits until messages arrive.</summary>
    public Task WaitForArrivalsAsync() => WaitForOutputAsync("  arrived ");

    /// <summary>Reads a count from the summary, such as <c>lost</c>; it must have ended.</summary>
    /// <exception cref="FormatException">There is no such line.</exception>
    public long ReadSummary(string name)
    {
        var line = Regex.Match(Output, $"^{name} +(?<count>[0-9,]+)", RegexOptions.Multiline | RegexOptions.ExplicitCapture, MatchLimit);
        return line.Success
            ? long.Parse(line.Groups["count"].Value, NumberStyles.AllowThousands, CultureInfo.InvariantCulture)
            : throw new FormatException($"The summary has no line \"{name}\".{Environment.NewLine}{Output}");
    }
}
