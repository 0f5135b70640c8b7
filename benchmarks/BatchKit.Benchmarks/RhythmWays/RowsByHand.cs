using System.Threading.Channels;
using BatchKit.Benchmarks.Rhythm;
using Npgsql;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Enqueues each task by itself, as by hand: a row and its commit, then a NOTIFY, on ten connections that are never given back.</summary>
internal sealed class RowsByHand(RhythmStage stage, string queue) : IAsyncDisposable
{
    private readonly Channel<byte[]> _payloads = Channel.CreateUnbounded<byte[]>();
    private Task _running = Task.CompletedTask;

    public async Task StartAsync()
    {
        var number = await stage.FindQueueAsync(queue);
        _running = Workers.RunAsync(Workers.Count, _ => InsertAsync(number));
    }

    /// <summary>Enqueues one, and does not wait.</summary>
    public void Write(ReadOnlySpan<byte> payload) => _payloads.Writer.TryWrite(payload.ToArray());

    public async ValueTask DisposeAsync()
    {
        _payloads.Writer.Complete();
        await _running;
    }

    private async Task InsertAsync(int number)
    {
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        var payload = new NpgsqlParameter<byte[]>();
        await using var insert = new NpgsqlCommand($"insert into {RhythmStage.Messages} (queue, payload) values ($1, $2)", connection);
        insert.Parameters.Add(new NpgsqlParameter<int> { TypedValue = number });
        insert.Parameters.Add(payload);
        await using var notify = new NpgsqlCommand($"notify {WorkersByHand.Channel}", connection);
        payload.TypedValue = [];
        await insert.PrepareAsync();
        await notify.PrepareAsync();
        await foreach (var task in _payloads.Reader.ReadAllAsync())
        {
            payload.TypedValue = task;
            await insert.ExecuteNonQueryAsync();
            await notify.ExecuteNonQueryAsync();
        }
    }
}
