using System.Buffers.Binary;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.MQTTnet;
using MQTTnet;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>An application's own messages, published 1000 a call over a client whose packets leave together.</summary>
internal sealed class MqttNetPublishMany : IPacedWay
{
    private readonly IMqttClient _client = MqttNetClients.Make(isBatched: true);
    private readonly MqttClientTransport _transport;
    private readonly MqttApplicationMessage[] _messages;
    private readonly PublishShape _shape;
    private readonly List<Task> _calls = [];

    public MqttNetPublishMany(PublishTarget target)
    {
        _shape = target.Shape;
        _transport = new MqttClientTransport(_client, new MqttClientTransportOptions { PublishWindow = target.Window });
        _messages = new MqttApplicationMessage[BatchKitEnd.BatchMessages];
        Array.Fill(_messages, MqttNetClients.MakeMessage(target.Shape, PublishShape.TopicAt(0), PublishShape.MakePayload()));
        MqttNetClients.Connect(_client, target.Port);
    }

    public async Task PublishAsync(int messages)
    {
        for (var left = messages; left > 0; left -= _messages.Length)
            await PublishAllAsync(_messages.AsMemory(0, Math.Min(left, _messages.Length)));
    }

    public void Start(int messages, long dueAt)
    {
        var payload = PublishShape.MakePayload();
        BinaryPrimitives.WriteInt64LittleEndian(payload, dueAt);
        var batch = new MqttApplicationMessage[messages];
        Array.Fill(batch, MqttNetClients.MakeMessage(_shape, PublishShape.TopicAt(0), payload));
        _calls.Add(PublishAllAsync(batch));
    }

    public async Task FinishAsync()
    {
        await Task.WhenAll(_calls);
        _calls.Clear();
    }

    public ValueTask DisposeAsync()
    {
        _transport.Dispose();
        _client.Dispose();
        return default;
    }

    private async Task PublishAllAsync(ReadOnlyMemory<MqttApplicationMessage> messages)
    {
        var report = await _transport.PublishManyAsync(messages).ConfigureAwait(false);
        if (!report.IsSuccess)
            throw new InvalidOperationException($"The broker refused {report.FailedMessages} messages.");
    }
}
