using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using MQTTnet;
using MQTTnet.Server;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>An application's loop that injects into its MQTTnet server and awaits each. The server has no limit here: with its own of 1000 it would drop what the subscriber has not read yet.</summary>
internal sealed class MqttNetInjectLoop(PublishTarget target) : IPublishWay
{
    private readonly MqttServer _server = MqttNetServers.Start(target.Port, maxPending: int.MaxValue);
    private readonly byte[] _payload = PublishShape.MakePayload();
    private readonly string[] _topics = [.. Enumerable.Range(0, target.Topics).Select(PublishShape.TopicAt)];

    public async Task PublishAsync(int messages)
    {
        for (var index = 0; index < messages; index++)
        {
            var message = MqttNetClients.MakeMessage(target.Shape, _topics[index % _topics.Length], _payload, target.IsRetained);
            await _server.InjectApplicationMessage(new InjectedMqttApplicationMessage(message) { SenderClientId = "game" });
        }
    }

    public ValueTask DisposeAsync()
    {
        _server.Dispose();
        return default;
    }
}
