using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.OutboxWorker;

/// <summary>An outbox over RabbitMQ as a child process, to be killed. Dispose it: that kills what has not ended.</summary>
public sealed class OutboxWorkerProcess : SampleProcess
{
    /// <summary>What it writes when it has begun to send on.</summary>
    public const string Working = "working";

    /// <summary>What it writes when all its lines are stored.</summary>
    public const string Stored = "stored";

    private OutboxWorkerProcess(OutboxWorkerSettings settings)
        : base("BatchKit.OutboxWorker", settings.ToArguments())
    {
    }

    /// <summary>Starts it, and does not wait.</summary>
    public static OutboxWorkerProcess Run(OutboxWorkerSettings settings) => new(settings);

    /// <summary>Waits until it sends on, or tries to.</summary>
    public Task WaitUntilWorkingAsync() => WaitForOutputAsync(Working);

    /// <summary>Waits until all its lines are committed.</summary>
    public Task WaitUntilStoredAsync() => WaitForOutputAsync(Stored);
}
