using System.Net;
using System.Net.Sockets;
using System.Text.Json.Serialization;
using BatchKit.Broadcast;
using BatchKit.Sessions;
using Microsoft.AspNetCore.Connections;
using MudServer.Game;
using MudServer.Game.Commands;
using MudServer.Softcode;

namespace MudServer.Hosting;

/// <summary>Builds and starts the server.</summary>
internal static class MudApplication
{
    /// <summary>The most HTTP connections that are no WebSocket.</summary>
    public const int MaxHttpConnections = 256;

    /// <summary>The most of them from one address, so that no address takes them all.</summary>
    public const int MaxHttpConnectionsPerAddress = 32;

    private static readonly TimeSpan HttpIdleTimeout = TimeSpan.FromSeconds(10);

    /// <exception cref="UsageException">The arguments or settings are wrong.</exception>
    public static WebApplication Build(IReadOnlyList<string> arguments)
    {
        var builder = WebApplication.CreateSlimBuilder(new WebApplicationOptions { ContentRootPath = AppContext.BaseDirectory });
        var options = MudOptionsReader.Read(arguments, Environment.GetEnvironmentVariable, builder.Configuration);
        if (IPAddress.IsLoopback(options.Address))
            builder.Configuration["AllowedHosts"] ??= "localhost;127.0.0.1;[::1]";
        builder.WebHost.ConfigureKestrel(kestrel =>
        {
            kestrel.Listen(options.Address, options.HttpPort, static listen => listen.LimitConnectionsPerAddress(MaxHttpConnectionsPerAddress));

            // The limits of clients begin with a WebSocket. Kestrel has none for requests, and lets a silent connection stay for two minutes.
            kestrel.Limits.MaxConcurrentConnections = MaxHttpConnections;
            kestrel.Limits.KeepAliveTimeout = HttpIdleTimeout;
            kestrel.Limits.RequestHeadersTimeout = HttpIdleTimeout;
        });
        builder.Services.AddSingleton(options);
        builder.Services.AddSingleton(TimeProvider.System);
        builder.Services.AddHealthChecks();
        builder.Services.AddHostedService<MemoryReturn>();
        builder.Services.ConfigureHttpJsonOptions(json => json.SerializerOptions.Converters.Add(new JsonStringEnumConverter()));
        builder.Services.Configure<HostOptions>(host => host.ShutdownTimeout += options.Role == MudRole.Gateway ? options.DrainTime : TimeSpan.Zero);
        MudBuffers.Add(builder.Services, options);
        if (options.Role != MudRole.Gateway)
            AddGame(builder.Services, options);

        var application = builder.Build();
        MudPages.Map(application);
        return application;
    }

    /// <exception cref="StartException">A port is in use, for example.</exception>
    public static async Task StartAsync(WebApplication application)
    {
        var options = application.Services.GetRequiredService<MudOptions>();
        try
        {
            await application.StartAsync();
        }
        catch (IOException exception) when (exception.InnerException is SocketException)
        {
            throw new StartException(
                $"Cannot listen for telnet on {options.Address}:{options.Port}: {exception.InnerException.Message}. Choose another port with --port.", exception);
        }
        catch (IOException exception) when (exception.InnerException is AddressInUseException)
        {
            throw new StartException(
                $"Cannot listen for HTTP on {options.Address}:{options.HttpPort}: it is in use. Choose another port with --http-port.", exception);
        }
    }

    private static void AddGame(IServiceCollection services, MudOptions options)
    {
        services.AddSingleton(new GameSettings(options.IsBuffered, ClosesConnections: options.Role == MudRole.All, options.Hop, options.GameNode, options.AwayLimit));
        services.AddSingleton(new GameInput(discardsWhenStopped: options.Role == MudRole.All, TimeProvider.System));
        var shards = options.Shard ?? new Shards(home: 1, count: 1);
        services.AddSingleton(shards);
        services.AddSingleton(new World(LanternIsle.Create(), shards));
        services.AddSingleton(provider => new Peers(provider.GetRequiredService<World>(), shards, provider.GetRequiredService<GameSettings>(), options.GameNode,
            provider.GetKeyedService<IOutputBuffer>(MudBuffers.Peers), provider.GetRequiredService<TimeProvider>()));
        services.AddSingleton<ReleaseShard>(provider => provider.GetService<ShardReceivers>() is { } receivers ? receivers.ReleaseAsync : static _ => Task.CompletedTask);
        services.AddSingleton(provider => new GameOutput(provider.GetRequiredService<IOutputBuffer>(), provider.GetRequiredKeyedService<IOutputBuffer>(MudBuffers.Away),
            provider.GetRequiredService<SessionTransport>(), provider.GetRequiredService<Peers>()));
        services.AddSingleton<SlowAnswers>();
        services.AddSingleton(new Random());
        services.AddSingleton(SoftcodeLimits.Standard);
        services.AddSingleton<WhoList>();
        // Who asks for a transport compares over that one.
        FindComparisonHop find = options.RequestedTransport is null && options.Transport == MudTransport.Memory
            ? new LocalBroker(options.Broker, options.Prefix).TryOpenAsync
            : static () => Task.FromResult<ComparisonHop?>(null);
        services.AddSingleton(find);
        services.AddSingleton<Comparison>();
        services.AddSingleton(provider => IslandCommands.Create(provider.GetRequiredService<World>(), provider.GetRequiredService<WhoList>(), provider.GetRequiredService<Comparison>()));
        services.AddSingleton<Interpreter>();
        services.AddSingleton<Passwords>();
        services.AddSingleton<Lobby>();
        services.AddSingleton<GameLoop>();
        if (shards.Count > 1)
            services.AddHostedService(static provider => provider.GetRequiredService<ShardReceivers>());
        services.AddHostedService<GameRunner>();
    }
}
