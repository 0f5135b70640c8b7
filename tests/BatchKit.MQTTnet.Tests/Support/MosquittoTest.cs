using BatchKit.TestServers.Mosquitto;
using MQTTnet;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>Tests with a Mosquitto of their own, and MQTTnet's clients of it.</summary>
public abstract class MosquittoTest : IAsyncLifetime
{
    private readonly List<IMqttClient> _clients = [];
    private MosquittoServer? _server;

    private protected MosquittoServer Server => _server!;

    private protected abstract MosquittoServerOptions ServerOptions { get; }

    public async ValueTask InitializeAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        _server = await MosquittoServer.StartOwnAsync(ServerOptions);
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var client in _clients)
            client.Dispose();
        if (_server is not null)
            await _server.DisposeAsync();
        GC.SuppressFinalize(this);
    }

    private protected IMqttClient MakeClient(bool isBatched)
    {
        var client = isBatched ? new MqttClientFactory().CreateMqttClient(new BatchedWriteClientAdapterFactory()) : new MqttClientFactory().CreateMqttClient();
        _clients.Add(client);
        return client;
    }
}
