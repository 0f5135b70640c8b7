using BatchKit.Benchmarks.Rhythm;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>BatchKit: scopes of so many writes, each awaited until it is committed, by ten buffers as ten producers have them.</summary>
internal sealed class ScopedWrites(RhythmStage stage, string queue, int tasksInScope, int keys = 0) : IRhythmWay
{
    private readonly QueueProducer _producer = new(stage, queue, Workers.Count, keys);

    public Task PrepareAsync(int tasks) => stage.EmptyAsync();

    public Task<TimeSpan> RunAsync(int tasks) => Workers.RunAsync(Workers.Count, worker =>
    {
        var (first, end) = Workers.ShareOf(worker, tasks);
        return _producer.EnqueueAsync(worker, first, end, tasksInScope);
    });

    public Task CheckAsync(int tasks) => stage.RequireStoredAsync(queue, tasks);

    public ValueTask DisposeAsync() => _producer.DisposeAsync();
}
