using System.Buffers.Binary;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.Transports;

namespace BatchKit.Benchmarks.Publishers;

/// <summary>Scopes of 1000 writes: with one topic a scope on it, with many an ambient one. The next scope is written while the one before is on its way.</summary>
internal sealed class BatchKitScoped : IPacedWay
{
    private readonly IBatchTransport _transport;
    private readonly OutputBuffer _output;
    private readonly OutputHandle[] _topics;
    private readonly MessageHeader? _header;
    private readonly byte[] _payload = PublishShape.MakePayload();
    private int _nextTopic;

    /// <param name="transport">Where they go; it is disposed with this.</param>
    /// <param name="target">What they are like.</param>
    public BatchKitScoped(IBatchTransport transport, PublishTarget target)
    {
        _transport = transport;
        _output = new OutputBuffer(transport, BatchKitEnd.MakeBufferOptions());
        _topics = [.. Enumerable.Range(0, target.Topics).Select(index => OutputHandle.Named(PublishShape.TopicAt(index)))];
        _header = BatchKitEnd.MakeHeader(target.Shape);
    }

    public async Task PublishAsync(int messages)
    {
        var underWay = default(ValueTask);
        for (var left = messages; left > 0; left -= BatchKitEnd.BatchMessages)
        {
            var next = WriteScope(Math.Min(left, BatchKitEnd.BatchMessages));
            await underWay;
            underWay = next;
        }

        await underWay;
    }

    public void Start(int messages, long dueAt)
    {
        BinaryPrimitives.WriteInt64LittleEndian(_payload, dueAt);
        using var scope = BeginScope();
        Write(messages);
    }

    public Task FinishAsync() => _output.FlushAsync().AsTask();

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await ((IAsyncDisposable)_transport).DisposeAsync();
    }

    private ValueTask WriteScope(int messages)
    {
        var scope = BeginScope();
        Write(messages);
        return scope.DisposeAsync();
    }

    private BufferingScope BeginScope() => _topics.Length == 1 ? _output.BeginBufferingScope(_topics[0]) : _output.BeginBufferingScope();

    private void Write(int messages)
    {
        for (var index = 0; index < messages; index++)
        {
            _output.Write(_topics[_nextTopic], _payload, _header);
            _nextTopic = (_nextTopic + 1) % _topics.Length;
        }
    }
}
