using BatchKit.Benchmarks.Rhythm;
using Npgsql;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Ten workers that look for up to a hundred tasks, and wait 100 ms when there are none.</summary>
internal sealed class PollingWorkers(RhythmStage stage, string queue, Action<byte[]> handle) : IAsyncDisposable
{
    private const int TasksInClaim = 100;
    private static readonly TimeSpan Interval = TimeSpan.FromMilliseconds(100);

    private readonly CancellationTokenSource _stopping = new();
    private Task _running = Task.CompletedTask;

    public async Task StartAsync()
    {
        var number = await stage.FindQueueAsync(queue);
        _running = Workers.RunAsync(Workers.Count, _ => PollAsync(number));
    }

    public async ValueTask DisposeAsync()
    {
        await _stopping.CancelAsync();
        await _running;
        _stopping.Dispose();
    }

    private async Task PollAsync(int number)
    {
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        await using var command = await DeleteReturning.PrepareAsync(connection, number, TasksInClaim);
        while (!_stopping.IsCancellationRequested)
        {
            if (await ClaimAsync(command))
                continue;
            await Task.Delay(Interval, _stopping.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private async Task<bool> ClaimAsync(NpgsqlCommand command)
    {
        await using var reader = await command.ExecuteReaderAsync();
        var isAny = false;
        while (await reader.ReadAsync())
        {
            isAny = true;
            handle(reader.GetFieldValue<byte[]>(1));
        }

        return isAny;
    }
}
