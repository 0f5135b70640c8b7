using BatchKit.TestServers.Mosquitto;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.Mqtt.MosquittoFixture))]

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>The broker that all tests share who do not break it; started by the first that asks.</summary>
/// <remarks>It queues without limit: by default it drops past a thousand messages for one client, in silence.</remarks>
public sealed class MosquittoFixture : IAsyncLifetime
{
    private readonly Lock _gate = new();
    private Task<MosquittoServer>? _server;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public Task<MosquittoServer> GetAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyMissing);
        lock (_gate)
            return _server ??= MosquittoServer.ConnectOrStartAsync(new MosquittoServerOptions { MaxQueued = 0 });
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is { } server)
            await (await server).DisposeAsync();
    }
}
