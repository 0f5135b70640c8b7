using System.Buffers.Binary;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using MQTTnet;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>MQTTnet's client, which publishes one message object again and again, with so many under way.</summary>
internal sealed class MqttNetPublisher : IPacedWay
{
    private readonly IMqttClient _client = MqttNetClients.Make(isBatched: false);
    private readonly PublishShape _shape;
    private readonly int _window;
    private readonly SemaphoreSlim _room;
    private readonly MqttApplicationMessage _message;

    public MqttNetPublisher(PublishTarget target, int window)
    {
        (_shape, _window) = (target.Shape, window);
        _room = new SemaphoreSlim(window);
        _message = MqttNetClients.MakeMessage(_shape, PublishShape.TopicAt(0), PublishShape.MakePayload());
        MqttNetClients.Connect(_client, target.Port);
    }

    public async Task PublishAsync(int messages)
    {
        for (var index = 0; index < messages; index++)
        {
            if (_window == 1)
            {
                Check(await _client.PublishAsync(_message));
                continue;
            }

            await _room.WaitAsync();
            _ = PublishOneAsync(_message);
        }

        await FinishAsync();
    }

    public void Start(int messages, long dueAt)
    {
        var payload = PublishShape.MakePayload();
        BinaryPrimitives.WriteInt64LittleEndian(payload, dueAt);
        var message = MqttNetClients.MakeMessage(_shape, PublishShape.TopicAt(0), payload);
        for (var index = 0; index < messages; index++)
        {
            _room.Wait();
            _ = PublishOneAsync(message);
        }
    }

    public async Task FinishAsync()
    {
        for (var place = 0; place < _window; place++)
            await _room.WaitAsync();
        _room.Release(_window);
    }

    public ValueTask DisposeAsync()
    {
        _client.Dispose();
        _room.Dispose();
        return default;
    }

    private async Task PublishOneAsync(MqttApplicationMessage message)
    {
        Check(await _client.PublishAsync(message).ConfigureAwait(false));
        _room.Release();
    }

    private static void Check(MqttClientPublishResult result)
    {
        if (!result.IsSuccess)
            throw new InvalidOperationException($"The broker refused a message: {result.ReasonCode}.");
    }
}
