using BatchKit.Postgres;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Notes when tasks arrive.</summary>
internal sealed class StampHandler(PacedTasks tasks) : IMessageHandler<QueueMessage>
{
    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        for (var index = 0; index < batch.Count; index++)
            tasks.Handle(batch[index].Payload.Span);
        return default;
    }
}
