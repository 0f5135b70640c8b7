namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>What ten workers can do at all: the same work on the same batches, from no queue.</summary>
internal sealed class WorkAlone(int tasksInBatch, TimeSpan workDuration) : IRhythmWay
{
    private readonly TaskWork _work = new(workDuration);

    public Task PrepareAsync(int tasks)
    {
        _work.Handled.Expect(tasks);
        return Task.CompletedTask;
    }

    public Task<TimeSpan> RunAsync(int tasks) => Workers.RunAsync(Workers.Count, worker => WorkAsync(worker, tasks));

    public Task CheckAsync(int tasks)
    {
        _work.Handled.Check();
        return Task.CompletedTask;
    }

    public ValueTask DisposeAsync() => default;

    private async Task WorkAsync(int worker, int tasks)
    {
        var payload = TaskPayload.Make();
        var (first, end) = Workers.ShareOf(worker, tasks);
        for (var number = first; number < end;)
        {
            var turn = _work.Begin();
            for (var last = Math.Min(end, number + tasksInBatch); number < last; number++)
            {
                TaskPayload.Number(payload, number);
                await turn.HandleAsync(payload);
            }
        }
    }
}
