using BatchKit.TestServers.RabbitMQ;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.RabbitMQ.RabbitMqFixture))]

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The broker that all tests share who do not break it; started by the first that asks.</summary>
public sealed class RabbitMqFixture : IAsyncLifetime
{
    private readonly Lock _gate = new();
    private Task<RabbitMqServer>? _server;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public Task<RabbitMqServer> GetAsync()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyMissing);
        lock (_gate)
            return _server ??= RabbitMqServer.ConnectOrStartAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is { } server)
            await (await server).DisposeAsync();
    }
}
