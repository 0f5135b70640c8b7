using System.Collections.Concurrent;
using BatchKit.TestServers.RabbitMQ;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.RabbitMQ.RabbitMqFixture))]
[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.RabbitMQ.RabbitMqPool))]

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The broker that tests share unless they break it.</summary>
public sealed class RabbitMqFixture() : SharedServer<RabbitMqServer>(
    static () => RabbitMqServer.WhyMissing, static () => RabbitMqServer.ConnectOrStartAsync(), RabbitMqServer.AddressVariable, static server => $"{server.Address}");

/// <summary>A broker of one test class, to be killed, frozen and given other settings; taken by the first test that asks.</summary>
public sealed class OwnRabbitMqFixture(RabbitMqPool pool) : IAsyncLifetime
{
    private RabbitMqServer? _server;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    /// <summary>The running broker; tests of one class run one after the other.</summary>
    public async Task<RabbitMqServer> GetAsync()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        return _server ??= await pool.TakeAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
            await pool.GiveBackAsync(_server);
    }
}

/// <summary>Brokers that no test class has now, because starting one takes seven seconds of processor time. Objects that earlier tests declared may still be there, under names of their own.</summary>
public sealed class RabbitMqPool : IAsyncDisposable
{
    private readonly ConcurrentBag<RabbitMqServer> _idle = [];

    public async Task<RabbitMqServer> TakeAsync() => _idle.TryTake(out var server) ? server : await RabbitMqServer.StartOwnAsync();

    /// <summary>Keeps a broker that answers, with the settings of a new one. What a failed test left behind is not lent again.</summary>
    public async Task GiveBackAsync(RabbitMqServer server)
    {
        if (await IsAsNewAsync(server))
            _idle.Add(server);
        else
            await server.DisposeAsync();
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var server in _idle)
            await server.DisposeAsync();
    }

    private static async Task<bool> IsAsNewAsync(RabbitMqServer server)
    {
        if (!server.IsRunning)
            return false;
        try
        {
            server.Thaw();
            await server.ResetAsync();
            return true;
        }
        catch (Exception exception) when (exception is InvalidOperationException or TimeoutException)
        {
            return false;
        }
    }
}
