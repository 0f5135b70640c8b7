using System.Globalization;
using System.Text.RegularExpressions;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.WorldTicks;

/// <summary>The WorldTicks sample as a child process, its world or one of its workers. Dispose it: that kills what has not ended.</summary>
public sealed class WorldTicksProcess : SampleProcess
{
    private static readonly TimeSpan MatchLimit = TimeSpan.FromSeconds(1);

    private WorldTicksProcess(IEnumerable<string> arguments)
        : base("WorldTicks", arguments)
    {
    }

    /// <summary>Starts it with just these arguments, and does not wait.</summary>
    public static WorldTicksProcess Run(params string[] arguments) => new(arguments);

    /// <summary>Waits until a worker has run a task.</summary>
    public Task WaitForTaskAsync() => WaitForOutputAsync("The first task is done.");

    /// <summary>Reads a count from what it prints at its end, such as <c>lost</c>; it must have ended.</summary>
    /// <exception cref="FormatException">There is no such line.</exception>
    public long ReadSummary(string name)
    {
        var line = Regex.Match(Output, $"^{Regex.Escape(name)} +(?<count>[0-9,]+)", RegexOptions.Multiline | RegexOptions.ExplicitCapture, MatchLimit);
        return line.Success
            ? long.Parse(line.Groups["count"].Value, NumberStyles.AllowThousands, CultureInfo.InvariantCulture)
            : throw new FormatException($"The summary has no line \"{name}\".{Environment.NewLine}{Output}");
    }
}
