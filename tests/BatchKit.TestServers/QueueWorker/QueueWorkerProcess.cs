using System.Globalization;
using System.Text.RegularExpressions;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.QueueWorker;

/// <summary>A worker of a queue as a child process, to be killed and frozen. Dispose it: that kills what has not ended.</summary>
public sealed class QueueWorkerProcess : SampleProcess
{
    /// <summary>What it writes when it has begun to receive.</summary>
    public const string Working = "working";

    private static readonly TimeSpan MatchLimit = TimeSpan.FromSeconds(1);

    private QueueWorkerProcess(QueueWorkerSettings settings)
        : base("BatchKit.QueueWorker", [settings.ToArgument()])
    {
    }

    /// <summary>Starts it, and does not wait.</summary>
    public static QueueWorkerProcess Run(QueueWorkerSettings settings) => new(settings);

    /// <summary>Waits until it receives.</summary>
    public Task WaitUntilWorkingAsync() => WaitForOutputAsync(Working);

    /// <summary>Reads a count from what it said at its end: <c>completed</c>, <c>retried</c>, <c>buried</c>, <c>released</c> or <c>lost</c>.</summary>
    /// <exception cref="FormatException">It has not ended in good order.</exception>
    public long ReadCount(string name)
    {
        var line = Regex.Match(Output, $"^{name} (?<count>[0-9]+)$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, MatchLimit);
        return line.Success
            ? long.Parse(line.Groups["count"].Value, CultureInfo.InvariantCulture)
            : throw new FormatException($"The worker did not say \"{name}\".{Environment.NewLine}{Output}");
    }
}
