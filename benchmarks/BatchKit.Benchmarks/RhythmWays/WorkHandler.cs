using BatchKit.Postgres;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Does the work of a batch's tasks, one after the other.</summary>
internal sealed class WorkHandler(TaskWork work) : IMessageHandler<QueueMessage>
{
    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        var turn = work.Begin();
        for (var index = 0; index < batch.Count; index++)
            await turn.HandleAsync(batch[index].Payload.Span);
    }
}
