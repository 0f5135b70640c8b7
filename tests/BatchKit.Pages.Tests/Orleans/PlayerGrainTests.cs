using System.Text;
using BatchKit.TestServers.Network;
using Grains;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.Pages.Tests.Orleans;

/// <summary>The program of docs/orleans.md, with a real silo and a real client.</summary>
public sealed class PlayerGrainTests
{
    [Fact]
    public async Task A_scope_in_a_grain_is_one_call_of_the_clients_observer_in_order()
    {
        var ports = FreePort.Take(2);
        using var silo = await StartAsync(builder => builder.UseOrleans(silo => silo.UseLocalhostClustering(ports[0], ports[1])), AddPlayers);
        using var client = await StartAsync(builder => builder.UseOrleansClient(client => client.UseLocalhostClustering(ports[1])));
        var grains = client.Services.GetRequiredService<IClusterClient>();
        var player = grains.GetGrain<IPlayerGrain>(7);
        var observer = new Observer();

        await player.ConnectAsync(grains.CreateObjectReference<IPlayerObserver>(observer)).WithinDeadline();
        await player.ListAsync(1000).WithinDeadline();
        await player.ListAsync(1).WithinDeadline();

        Assert.Equal([string.Concat(Enumerable.Range(1, 1000).Select(item => $"item {item}\r\n")), "item 1\r\n"], observer.Calls);
        await client.StopAsync().WithinDeadline();
        await silo.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_player_who_never_connected_is_refused()
    {
        var ports = FreePort.Take(2);
        using var silo = await StartAsync(builder => builder.UseOrleans(silo => silo.UseLocalhostClustering(ports[0], ports[1])), AddPlayers);

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => silo.Services.GetRequiredService<IGrainFactory>().GetGrain<IPlayerGrain>(8).ListAsync(1).WithinDeadline());

        Assert.Contains("A player is gone", $"{failure}", StringComparison.Ordinal);
        await silo.StopAsync().WithinDeadline();
    }

    private static void AddPlayers(IServiceCollection services)
    {
        services.AddSingleton<ObserverTransport>();
        services.AddBatchKit().UseLocal(static provider => provider.GetRequiredService<ObserverTransport>());
    }

    private static async Task<IHost> StartAsync(Action<IHostApplicationBuilder> configure, Action<IServiceCollection>? add = null)
    {
        var builder = Host.CreateEmptyApplicationBuilder(settings: null);
        builder.Services.AddLogging();
        configure(builder);
        add?.Invoke(builder.Services);
        var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }

    /// <summary>A client's screen. Orleans calls an observer once at a time.</summary>
    private sealed class Observer : IPlayerObserver
    {
        public List<string> Calls { get; } = [];

        public Task ReceiveAsync(byte[] output)
        {
            Calls.Add(Encoding.UTF8.GetString(output));
            return Task.CompletedTask;
        }
    }
}
