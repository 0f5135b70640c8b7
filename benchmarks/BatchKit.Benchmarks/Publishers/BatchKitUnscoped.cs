using BatchKit.Benchmarks.RawMqtt;
using BatchKit.Mqtt;

namespace BatchKit.Benchmarks.Publishers;

/// <summary>Writes from eight threads without any scope, each for a topic of its own: linger and what is under way bring them together.</summary>
internal sealed class BatchKitUnscoped : IPublishWay
{
    private const int Writers = 8;

    private readonly MqttTransport _transport;
    private readonly OutputBuffer _output;
    private readonly OutputHandle[] _topics = [.. Enumerable.Range(0, Writers).Select(index => OutputHandle.Named(PublishShape.TopicAt(index)))];
    private readonly MessageHeader? _header;
    private readonly byte[] _payload = PublishShape.MakePayload();

    public BatchKitUnscoped(PublishTarget target)
    {
        _transport = BatchKitEnd.MakeTransport(target);
        _output = new OutputBuffer(_transport, BatchKitEnd.MakeBufferOptions());
        _header = BatchKitEnd.MakeHeader(target.Shape);
    }

    public async Task PublishAsync(int messages)
    {
        await Task.WhenAll(Enumerable.Range(0, Writers).Select(writer => Task.Run(() => WriteAsync(writer, (messages + writer) / Writers))));
        await _output.FlushAsync();
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
    }

    private async Task WriteAsync(int writer, int messages)
    {
        for (var index = 0; index < messages; index++)
            await _output.WriteAsync(_topics[writer], _payload, _header);
    }
}
