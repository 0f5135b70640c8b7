using System.Threading.Channels;
using BatchKit.Benchmarks.Rhythm;
using Npgsql;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Ten workers that take up to a hundred tasks by DELETE … RETURNING, and when there are none wait 100 ms, or for a notification. What one that dies had in hand is lost.</summary>
internal sealed class WorkersByHand(RhythmStage stage, string queue, bool isPolling, Action<byte[]> handle) : IAsyncDisposable
{
    /// <summary>Where <see cref="RowsByHand"/> notifies.</summary>
    public const string Channel = "by_hand";

    private const int TasksInClaim = 100;
    private static readonly TimeSpan Interval = TimeSpan.FromMilliseconds(100);

    private readonly Channel<bool> _wakes = System.Threading.Channels.Channel.CreateBounded<bool>(new BoundedChannelOptions(1) { FullMode = BoundedChannelFullMode.DropWrite });
    private readonly CancellationTokenSource _stopping = new();
    private Task _running = Task.CompletedTask;

    public async Task StartAsync()
    {
        var number = await stage.FindQueueAsync(queue);
        var listening = isPolling ? Task.CompletedTask : ListenAsync(await stage.DataSource.OpenConnectionAsync());
        _running = Task.WhenAll(listening, Workers.RunAsync(Workers.Count, _ => WorkAsync(number)));
    }

    public async ValueTask DisposeAsync()
    {
        await _stopping.CancelAsync();
        await _running;
        _stopping.Dispose();
    }

    private async Task ListenAsync(NpgsqlConnection connection)
    {
        await using var _ = connection;
        connection.Notification += (_, _) => Wake();
        await using (var listen = new NpgsqlCommand($"listen {Channel}", connection))
            await listen.ExecuteNonQueryAsync();
        // Npgsql may lose a cancellation, so no wait lasts long.
        while (!_stopping.IsCancellationRequested)
            await ((Task)connection.WaitAsync(TimeSpan.FromSeconds(1), _stopping.Token)).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private async Task WorkAsync(int number)
    {
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        await using var command = await DeleteReturning.PrepareAsync(connection, number, TasksInClaim);
        while (!_stopping.IsCancellationRequested)
        {
            if (await ClaimAsync(command))
                continue;
            var more = isPolling ? Task.Delay(Interval, _stopping.Token) : _wakes.Reader.ReadAsync(_stopping.Token).AsTask();
            await more.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
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

    private void Wake() => _wakes.Writer.TryWrite(true);
}
