using System.Buffers.Binary;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.MQTTnet;
using MQTTnet;
using MQTTnet.Server;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>An application's own messages, injected 1000 a call into a server with its own defaults.</summary>
internal sealed class MqttNetInjectMany(PublishTarget target, bool isBatched) : IPacedWay
{
    private readonly MqttServer _server = MqttNetServers.Start(target.Port, isBatched: isBatched);
    private readonly byte[] _payload = PublishShape.MakePayload();
    private readonly string[] _topics = [.. Enumerable.Range(0, target.Topics).Select(PublishShape.TopicAt)];
    private readonly List<Task> _calls = [];

    public async Task PublishAsync(int messages)
    {
        for (var start = 0; start < messages; start += BatchKitEnd.BatchMessages)
            await InjectAsync(Math.Min(BatchKitEnd.BatchMessages, messages - start), start, _payload);
    }

    public void Start(int messages, long dueAt)
    {
        var payload = PublishShape.MakePayload();
        BinaryPrimitives.WriteInt64LittleEndian(payload, dueAt);
        _calls.Add(InjectAsync(messages, start: 0, payload));
    }

    public async Task FinishAsync()
    {
        await Task.WhenAll(_calls);
        _calls.Clear();
    }

    public ValueTask DisposeAsync()
    {
        _server.Dispose();
        return default;
    }

    private async Task InjectAsync(int messages, int start, byte[] payload)
    {
        var batch = new MqttApplicationMessage[messages];
        for (var index = 0; index < batch.Length; index++)
            batch[index] = MqttNetClients.MakeMessage(target.Shape, _topics[(start + index) % _topics.Length], payload, target.IsRetained);
        var report = await _server.InjectManyAsync(batch).ConfigureAwait(false);
        if (!report.Messages.IsSuccess)
            throw new InvalidOperationException($"The server refused {report.Messages.FailedMessages} messages.");
    }
}
