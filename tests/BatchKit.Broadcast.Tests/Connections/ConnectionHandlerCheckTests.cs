using Microsoft.AspNetCore.Builder;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Connections;

/// <summary>What would disconnect each client stops the start instead.</summary>
public sealed class ConnectionHandlerCheckTests
{
    private const string Missing = "Handler can't be created for a connection: its constructor needs Room, which is not registered. Register it, or take it out of the constructor.";

    private const string Scoped =
        "Handler can't be created for a connection: its constructor needs Room, which is scoped, and a connection has no scope: it may last for hours. Take IServiceScopeFactory instead, and create a scope for each record.";

    [Fact]
    public async Task A_host_whose_listener_has_a_handler_with_a_missing_or_scoped_service_does_not_start()
    {
        Assert.Equal(Missing, await FailureOfListeningAsync<Handler>(static _ => { }));
        Assert.Equal(Scoped, await FailureOfListeningAsync<Handler>(static services => services.AddScoped<Room>()));
        Assert.Null(await FailureOfListeningAsync<Handler>(static services => services.AddSingleton<Room>()));
        Assert.Null(await FailureOfListeningAsync<Handler>(static services => services.AddTransient<Room>()));
    }

    [Fact]
    public async Task Keyed_and_generic_services_are_found_and_optional_ones_are_not_asked_for()
    {
        Assert.Contains("Room with the key 'lobby', which is not registered", await FailureOfListeningAsync<KeyedHandler>(static services => services.AddSingleton<Room>()), StringComparison.Ordinal);
        Assert.Contains("Room with the key 'lobby', which is scoped", await FailureOfListeningAsync<KeyedHandler>(static services => services.AddKeyedScoped<Room>("lobby")), StringComparison.Ordinal);
        Assert.Null(await FailureOfListeningAsync<KeyedHandler>(static services => services.AddKeyedSingleton<Room>("lobby")));
    }

    [Fact]
    public void A_path_for_WebSocket_clients_is_not_mapped_to_a_handler_with_a_missing_or_scoped_service()
    {
        Assert.Equal(Missing, Assert.Throws<InvalidOperationException>(() => Map(static _ => { })).Message);
        Assert.Equal(Scoped, Assert.Throws<InvalidOperationException>(() => Map(static services => services.AddScoped<Room>())).Message);
        Map(static services => services.AddSingleton<Room>());
    }

    private static async Task<string?> FailureOfListeningAsync<THandler>(Action<IServiceCollection> configure)
        where THandler : class, IConnectionHandler
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddLogging();
        builder.Services.AddBatchKit().UseBroadcast().Listen<THandler>(new BroadcastListenerOptions());
        configure(builder.Services);
        using var host = builder.Build();
        try
        {
            await host.StartAsync(TestContext.Current.CancellationToken);
            await host.StopAsync(TestContext.Current.CancellationToken);
            return null;
        }
        catch (InvalidOperationException failure)
        {
            return failure.Message;
        }
    }

    private static void Map(Action<IServiceCollection> configure)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Services.AddBatchKit().UseBroadcast();
        configure(builder.Services);
        builder.Build().MapBatchKitWebSockets<Handler>("/play");
    }

    private sealed class Room;

    private sealed class Handler(ClientConnection connection, Room room) : SilentHandler
    {
        public (ClientConnection Connection, Room Room) Parts => (connection, room);
    }

    private sealed class KeyedHandler(ClientConnection connection, ILogger<KeyedHandler> logger, [FromKeyedServices("lobby")] Room room, Handler? other = null) : SilentHandler
    {
        public (ClientConnection Connection, ILogger Logger, Room Room, Handler? Other) Parts => (connection, logger, room, other);
    }

    private abstract class SilentHandler : IConnectionHandler
    {
        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
    }
}
