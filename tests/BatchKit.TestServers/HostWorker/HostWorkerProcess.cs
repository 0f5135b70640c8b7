using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.HostWorker;

/// <summary>A host that writes, as a child process, to be stopped. Dispose it: that kills what has not ended.</summary>
public sealed class HostWorkerProcess : SampleProcess
{
    /// <summary>What it writes when its announced messages are accepted.</summary>
    public const string Writing = "writing";

    /// <summary>What it writes, with the reason, when the buffer refused a line.</summary>
    public const string Refused = "refused";

    private HostWorkerProcess(HostWorkerSettings settings)
        : base("BatchKit.HostWorker", [settings.ToArgument()])
    {
    }

    /// <summary>Starts it, and does not wait.</summary>
    public static HostWorkerProcess Run(HostWorkerSettings settings) => new(settings);

    /// <summary>Waits until its announced messages are accepted.</summary>
    public Task WaitUntilWritingAsync() => WaitForOutputAsync(Writing);
}
