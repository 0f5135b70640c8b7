using BatchKit.TestServers.RabbitMQ;

[assembly: AssemblyFixture(typeof(MudServer.Tests.Support.BrokerFixture))]

namespace MudServer.Tests.Support;

/// <summary>The broker that tests share; started by the first test that asks.</summary>
public sealed class BrokerFixture : IAsyncLifetime
{
    private readonly Lock _lock = new();
    private Task<RabbitMqServer>? _server;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public Task<RabbitMqServer> GetAsync()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyMissing);
        lock (_lock)
            return _server ??= RabbitMqServer.ConnectOrStartAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is { } server)
            await (await server).DisposeAsync();
    }
}
