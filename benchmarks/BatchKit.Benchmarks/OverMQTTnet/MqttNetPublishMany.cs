using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.MQTTnet;
using MQTTnet;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>An application's own messages, published 1000 a call over a client whose packets leave together.</summary>
internal sealed class MqttNetPublishMany : IPublishWay
{
    private readonly IMqttClient _client = MqttNetClients.Make(isBatched: true);
    private readonly MqttClientTransport _transport;
    private readonly MqttApplicationMessage[] _messages;

    public MqttNetPublishMany(PublishTarget target)
    {
        _transport = new MqttClientTransport(_client, new MqttClientTransportOptions { PublishWindow = target.Window });
        _messages = new MqttApplicationMessage[BatchKitEnd.BatchMessages];
        Array.Fill(_messages, MqttNetClients.MakeMessage(target.Shape, PublishShape.TopicAt(0), PublishShape.MakePayload()));
        MqttNetClients.Connect(_client, target.Port);
    }

    public async Task PublishAsync(int messages)
    {
        for (var left = messages; left > 0; left -= _messages.Length)
        {
            var report = await _transport.PublishManyAsync(_messages.AsMemory(0, Math.Min(left, _messages.Length)));
            if (!report.IsSuccess)
                throw new InvalidOperationException($"The broker refused {report.FailedMessages} messages.");
        }
    }

    public ValueTask DisposeAsync()
    {
        _transport.Dispose();
        _client.Dispose();
        return default;
    }
}
