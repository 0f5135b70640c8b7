using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.QueueWorker;

/// <summary>A worker of a queue as a child process, to be killed and frozen. Dispose it: that kills what has not ended.</summary>
public sealed class QueueWorkerProcess : SampleProcess
{
    /// <summary>What it writes when it has begun to receive.</summary>
    public const string Working = "working";

    private QueueWorkerProcess(QueueWorkerSettings settings)
        : base("BatchKit.QueueWorker", [settings.ToArgument()])
    {
    }

    /// <summary>Starts it, and does not wait.</summary>
    public static QueueWorkerProcess Run(QueueWorkerSettings settings) => new(settings);

    /// <summary>Waits until it receives.</summary>
    public Task WaitUntilWorkingAsync() => WaitForOutputAsync(Working);
}
