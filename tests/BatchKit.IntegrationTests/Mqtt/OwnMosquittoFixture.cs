using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A broker of one test class, to be killed and frozen; started by the first test that asks.</summary>
public sealed class OwnMosquittoFixture : IAsyncLifetime
{
    private MosquittoServer? _server;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    /// <summary>The running broker; tests of one class run one after the other.</summary>
    public async Task<MosquittoServer> GetAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        return _server ??= await MosquittoServer.StartOwnAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
            await _server.DisposeAsync();
    }
}
