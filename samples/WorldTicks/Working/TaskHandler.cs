using System.Diagnostics;
using BatchKit;
using BatchKit.Postgres;
using WorldTicks.Ledger;
using WorldTicks.World;

namespace WorldTicks.Working;

/// <summary>Handles batches of both queues: runs one task after another, and reports finished tasks in groups.</summary>
internal sealed class TaskHandler(TaskRunner runner, ReportWriter reports, WorkerMeter meter) : IMessageHandler<QueueMessage>
{
    // One report for each task would cost a round trip a task. With one for the whole batch, a killed worker would have all of it run again.
    private const int ReportEvery = 25;

    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        var takenAt = Stopwatch.GetTimestamp();
        var done = new List<(QueueMessage Message, TaskReport Report)>(ReportEvery);
        foreach (var message in batch)
        {
            if (!WorldTask.TryRead(message.Payload.Span, out var task))
            {
                message.Refuse("This is not a task of a world.");
                continue;
            }

            if (await TryRunAsync(message, task, cancellationToken))
                done.Add((message, new TaskReport(Guid.CreateVersion7(), task, message.Attempt, message.EnqueuedAt, takenAt)));
            if (done.Count == ReportEvery)
                await ReportAsync(done, cancellationToken);
        }

        await ReportAsync(done, cancellationToken);
        meter.AddBatch(batch.Count);
    }

    // The mark applies to this message alone. The other messages of the batch are not affected.
    private async ValueTask<bool> TryRunAsync(QueueMessage message, WorldTask task, CancellationToken cancellationToken)
    {
        try
        {
            await runner.RunAsync(task, cancellationToken);
            return true;
        }
        catch (PoisonedTaskException exception)
        {
            message.Retry(exception.Message);
            return false;
        }
    }

    private async ValueTask ReportAsync(List<(QueueMessage Message, TaskReport Report)> done, CancellationToken cancellationToken)
    {
        if (done.Count == 0)
            return;
        await reports.WriteAsync([.. done.Select(pair => pair.Report)], cancellationToken);
        foreach (var (message, report) in done)
        {
            message.Complete();
            meter.AddDone(report);
        }

        done.Clear();
    }
}
