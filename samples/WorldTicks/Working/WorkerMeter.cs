using BatchKit.Postgres;
using Microsoft.Extensions.DependencyInjection;
using WorldTicks.Ledger;
using WorldTicks.World;

namespace WorldTicks.Working;

/// <summary>Counts what this worker does. Thread-safe.</summary>
internal sealed class WorkerMeter(IServiceProvider services, SampleLog events)
{
    private const string FirstDone = "The first task is done.";

    private long _done;
    private long _retaken;
    private long _batches;
    private long _messages;

    public void AddDone(TaskReport report)
    {
        if (Interlocked.Increment(ref _done) == 1)
            events.Add(FirstDone);
        if (report.Attempt > 1)
            Interlocked.Increment(ref _retaken);
    }

    public void AddBatch(int messages)
    {
        Interlocked.Increment(ref _batches);
        Interlocked.Add(ref _messages, messages);
    }

    public WorkerSnapshot Take()
    {
        // Resolved late, because the receivers are created with the handlers, which need this meter.
        var receivers = new[] { TaskQueues.Npc, TaskQueues.Weather }.Select(services.GetRequiredKeyedService<PostgresQueueReceiver>).ToArray();
        var statistics = receivers.Select(receiver => receiver.GetStatistics()).ToArray();
        return new WorkerSnapshot
        {
            Done = Volatile.Read(ref _done),
            Retaken = Volatile.Read(ref _retaken),
            Batches = Volatile.Read(ref _batches),
            Messages = Volatile.Read(ref _messages),
            Handling = statistics.Sum(receiver => receiver.HandlingMessages),
            Retried = statistics.Sum(receiver => receiver.RetriedMessages),
            Buried = statistics.Sum(receiver => receiver.BuriedMessages),
            GivenBack = statistics.Sum(receiver => receiver.ReleasedMessages),
            Refused = statistics.Sum(receiver => receiver.LostMessages),
            Fault = receivers.Select(receiver => receiver.Fault).FirstOrDefault(fault => fault is not null),
        };
    }
}
