using BatchKit.Benchmarks.Rhythm;
using BatchKit.Postgres;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Enqueues tasks through BatchKit: so many buffers over one transport, all into one queue.</summary>
internal sealed class QueueProducer : IAsyncDisposable
{
    private readonly PostgresQueueTransport _transport;
    private readonly OutputBuffer[] _buffers;
    private readonly MessageHeader?[] _headers;
    private readonly OutputHandle _queue;

    /// <param name="stage">Where they go.</param>
    /// <param name="queue">The queue's name.</param>
    /// <param name="buffers">How many sends may be under way.</param>
    /// <param name="keys">With some, the queue is ordered by so many keys.</param>
    public QueueProducer(RhythmStage stage, string queue, int buffers, int keys = 0)
    {
        _transport = new PostgresQueueTransport(stage.DataSource, new PostgresOptions { Shards = keys > 0 ? RhythmStage.Shards : 0 });
        _buffers = [.. Enumerable.Range(0, buffers).Select(_ => new OutputBuffer(_transport, RhythmStage.MakeBufferOptions()))];
        _headers = keys > 0 ? [.. Enumerable.Range(0, keys).Select(key => new MessageHeader { Key = $"key-{key}" })] : [null];
        _queue = OutputHandle.Named(queue);
    }

    /// <summary>Enqueues tasks with numbers from the first on, in scopes that are awaited one by one.</summary>
    public async Task EnqueueAsync(int buffer, int first, int end, int tasksInScope)
    {
        for (var number = first; number < end; number += tasksInScope)
            await WriteScope(_buffers[buffer], number, Math.Min(end, number + tasksInScope));
    }

    /// <summary>Enqueues one, and does not wait.</summary>
    public void Write(ReadOnlySpan<byte> payload) => _buffers[0].Write(_queue, payload);

    public async ValueTask DisposeAsync()
    {
        foreach (var buffer in _buffers)
            await buffer.DisposeAsync();
        await _transport.DisposeAsync();
    }

    private ValueTask WriteScope(OutputBuffer buffer, int first, int end)
    {
        Span<byte> payload = stackalloc byte[TaskPayload.Bytes];
        TaskPayload.Fill(payload);
        var scope = buffer.BeginBufferingScope(_queue);
        for (var number = first; number < end; number++)
        {
            TaskPayload.Number(payload, number);
            buffer.Write(_queue, payload, _headers[number % _headers.Length]);
        }

        return scope.DisposeAsync();
    }
}
