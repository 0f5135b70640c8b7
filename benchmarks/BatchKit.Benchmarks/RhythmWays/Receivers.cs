using BatchKit.Benchmarks.Rhythm;
using BatchKit.Postgres;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>BatchKit drains a queue that was filled before.</summary>
internal sealed class Receivers(RhythmStage stage, PostgresQueueReceiverOptions options, TimeSpan workDuration) : IRhythmWay
{
    private const int Keys = 1000;

    private readonly TaskWork _work = new(workDuration);
    private readonly ScopedWrites _filler = new(stage, options.Queue, tasksInScope: 1000, options.Shards > 0 ? Keys : 0);

    public async Task PrepareAsync(int tasks)
    {
        _work.Handled.Expect(tasks);
        await _filler.PrepareAsync(tasks);
        await _filler.RunAsync(tasks);
        await stage.SettleAsync(RhythmStage.Messages);
    }

    public async Task<TimeSpan> RunAsync(int tasks)
    {
        await using var receiver = new PostgresQueueReceiver(stage.DataSource, options, new WorkHandler(_work));
        return await Workers.RunAsync(workers: 1, async _ =>
        {
            await receiver.StartAsync(CancellationToken.None);
            await Settlement.WaitAsync(receiver, _work.Handled, tasks);
        });
    }

    public Task CheckAsync(int tasks)
    {
        _work.Handled.Check();
        return stage.RequireEmptyAsync(RhythmStage.Messages, "batchkit.claims", "batchkit.dead");
    }

    public ValueTask DisposeAsync() => _filler.DisposeAsync();
}
