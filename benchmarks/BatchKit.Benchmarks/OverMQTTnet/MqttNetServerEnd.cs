using BatchKit.Benchmarks.Publishers;
using BatchKit.MQTTnet;
using BatchKit.Transports;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>BatchKit's transport into a server with its own defaults, and that server.</summary>
internal sealed class MqttNetServerEnd : IBatchTransport, IAsyncDisposable
{
    private readonly MqttServer _server;
    private readonly MqttServerTransport _transport;

    public MqttNetServerEnd(PublishTarget target)
    {
        _server = MqttNetServers.Start(target.Port);
        _transport = new MqttServerTransport(
            _server, new MqttServerTransportOptions { QualityOfService = (MqttQualityOfServiceLevel)target.Shape.Quality, Retain = target.IsRetained });
    }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => _transport.SendAsync(batches, cancellationToken);

    public ValueTask DisposeAsync()
    {
        _transport.Dispose();
        _server.Dispose();
        return default;
    }
}
