using BatchKit.Benchmarks.Publishers;
using BatchKit.MQTTnet;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Protocol;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>BatchKit's transport over a client whose packets leave together, and that client.</summary>
internal sealed class MqttNetClientEnd : IBatchTransport, IAsyncDisposable
{
    private readonly IMqttClient _client = MqttNetClients.Make(isBatched: true);
    private readonly MqttClientTransport _transport;

    public MqttNetClientEnd(PublishTarget target)
    {
        _transport = new MqttClientTransport(
            _client, new MqttClientTransportOptions { QualityOfService = (MqttQualityOfServiceLevel)target.Shape.Quality, PublishWindow = target.Window });
        MqttNetClients.Connect(_client, target.Port);
    }

    public bool SendsWithoutBlocking => _transport.SendsWithoutBlocking;

    public int MaxMessageBytes => _transport.MaxMessageBytes;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => _transport.SendAsync(batches, cancellationToken);

    public ValueTask DisposeAsync()
    {
        _transport.Dispose();
        _client.Dispose();
        return default;
    }
}
