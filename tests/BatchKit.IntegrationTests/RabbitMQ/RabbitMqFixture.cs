using BatchKit.TestServers.RabbitMQ;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.RabbitMQ.RabbitMqFixture))]

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The broker that tests share unless they break it.</summary>
public sealed class RabbitMqFixture() : SharedServer<RabbitMqServer>(
    static () => RabbitMqServer.WhyMissing, static () => RabbitMqServer.ConnectOrStartAsync(), RabbitMqServer.AddressVariable, static server => $"{server.Address}");

/// <summary>A broker of one test class, to be killed and frozen; started by the first test that asks.</summary>
public sealed class OwnRabbitMqFixture : IAsyncLifetime
{
    private RabbitMqServer? _server;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    /// <summary>The running broker; tests of one class run one after the other.</summary>
    public async Task<RabbitMqServer> GetAsync()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        return _server ??= await RabbitMqServer.StartOwnAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
            await _server.DisposeAsync();
    }
}
