using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.MQTTnet;
using MQTTnet;
using MQTTnet.Server;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>An application's own messages, injected 1000 a call into a server with its own defaults.</summary>
internal sealed class MqttNetInjectMany(PublishTarget target) : IPublishWay
{
    private readonly MqttServer _server = MqttNetServers.Start(target.Port);
    private readonly byte[] _payload = PublishShape.MakePayload();
    private readonly string[] _topics = [.. Enumerable.Range(0, target.Topics).Select(PublishShape.TopicAt)];

    public async Task PublishAsync(int messages)
    {
        for (var start = 0; start < messages; start += BatchKitEnd.BatchMessages)
        {
            var batch = new MqttApplicationMessage[Math.Min(BatchKitEnd.BatchMessages, messages - start)];
            for (var index = 0; index < batch.Length; index++)
                batch[index] = MqttNetClients.MakeMessage(target.Shape, _topics[(start + index) % _topics.Length], _payload, target.IsRetained);
            var report = await _server.InjectManyAsync(batch);
            if (!report.Messages.IsSuccess)
                throw new InvalidOperationException($"The server refused {report.Messages.FailedMessages} messages.");
        }
    }

    public ValueTask DisposeAsync()
    {
        _server.Dispose();
        return default;
    }
}
