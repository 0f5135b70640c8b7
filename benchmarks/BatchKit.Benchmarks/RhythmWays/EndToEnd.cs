using System.Diagnostics;
using BatchKit.Benchmarks.Rhythm;
using BatchKit.Postgres;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>BatchKit from the first write until the last task is done: one producer in scopes of up to a thousand, and workers that wait for it.</summary>
internal sealed class EndToEnd(RhythmStage stage, int workers) : IRhythmWay
{
    private const string Queue = "end-to-end";

    private readonly TaskWork _work = new(TimeSpan.Zero);
    private readonly QueueProducer _producer = new(stage, Queue, buffers: 1);
    private PostgresQueueReceiver? _receiver;

    public async Task PrepareAsync(int tasks)
    {
        _work.Handled.Expect(tasks);
        await stage.EmptyAsync();
        await stage.SettleAsync(RhythmStage.Messages);
        _receiver = new PostgresQueueReceiver(stage.DataSource, new PostgresQueueReceiverOptions { Queue = Queue, Concurrency = workers }, new WorkHandler(_work));
        await _receiver.StartAsync(CancellationToken.None);
    }

    public async Task<TimeSpan> RunAsync(int tasks)
    {
        var began = Stopwatch.GetTimestamp();
        await _producer.EnqueueAsync(buffer: 0, 0, tasks, tasksInScope: 1000);
        await Settlement.WaitAsync(_receiver!, _work.Handled, tasks);
        return Stopwatch.GetElapsedTime(began);
    }

    public async Task CheckAsync(int tasks)
    {
        await _receiver!.DisposeAsync();
        _work.Handled.Check();
        await stage.RequireEmptyAsync(RhythmStage.Messages, "batchkit.claims", "batchkit.dead");
    }

    public async ValueTask DisposeAsync()
    {
        if (_receiver is not null)
            await _receiver.DisposeAsync();
        await _producer.DisposeAsync();
    }
}
