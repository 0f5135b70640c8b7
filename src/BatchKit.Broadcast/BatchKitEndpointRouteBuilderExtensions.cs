using System.Diagnostics.CodeAnalysis;
using BatchKit;
using BatchKit.Broadcast;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.WebSockets;
using Microsoft.AspNetCore.HostFiltering;
using Microsoft.AspNetCore.Routing;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Microsoft.Extensions.Primitives;

namespace Microsoft.AspNetCore.Builder;

/// <summary>Accepts WebSocket clients through ASP.NET Core's routing.</summary>
public static class BatchKitEndpointRouteBuilderExtensions
{
    /// <summary>Maps a path on which WebSocket clients connect to the transport that <c>UseBroadcast</c> or <c>AddBroadcast</c> registered.</summary>
    /// <typeparam name="THandler">The handler. One is created for each connection, with the <see cref="ClientConnection"/> and services as constructor arguments.</typeparam>
    /// <inheritdoc cref="MapBatchKitWebSockets(IEndpointRouteBuilder, string, BroadcastTransport, Func{ClientConnection, IConnectionHandler}, WebSocketEndpointOptions, IOutputBuffer)"/>
    /// <param name="endpoints">The application's routes.</param>
    /// <param name="pattern">The path, as a route pattern.</param>
    /// <param name="options">The endpoint's settings; the defaults when null.</param>
    /// <param name="bufferName">The buffer's name; the unnamed one by default.</param>
    public static IEndpointConventionBuilder MapBatchKitWebSockets<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IEndpointRouteBuilder endpoints, string pattern, WebSocketEndpointOptions? options = null, string bufferName = "")
        where THandler : class, IConnectionHandler
    {
        ArgumentNullException.ThrowIfNull(endpoints);
        var services = endpoints.ServiceProvider;
        var transport = FindTransport(services, bufferName);
        ConnectionHandlerCheck.ThrowIfUncreatable<THandler>(services, bufferName);
        var factory = ActivatorUtilities.CreateFactory<THandler>([typeof(ClientConnection)]);
        return endpoints.MapBatchKitWebSockets(
            pattern, transport, connection => factory(services, [connection]), options,
            services.GetRequiredKeyedService<OutputBuffer>(bufferName));
    }

    /// <summary>Maps a path on which WebSocket clients connect.</summary>
    /// <remarks>
    /// The endpoint includes ASP.NET Core's WebSocket middleware. Compression (permessage-deflate, RFC 7692) is refused, because all clients of a group share one frame.
    /// Set authorization, rate limits and hosts on the returned builder, as for any endpoint. Where Kestrel's <c>MaxConcurrentConnections</c> is not set, it becomes on Linux an eighth of the file handles that the process
    /// may have: connections that send no request would otherwise take all of them, which ends the process. A WebSocket client (HTTP/1.1) does not count.
    /// </remarks>
    /// <param name="endpoints">The application's routes.</param>
    /// <param name="pattern">The path, as a route pattern.</param>
    /// <param name="transport">The transport that serves the clients; its options limit them.</param>
    /// <param name="handlers">Creates the handler of each connection.</param>
    /// <param name="options">The endpoint's settings; the defaults when null.</param>
    /// <param name="output">The buffer that handlers write to: all replies to one read then leave in one write. Null for no buffering scope around a read.</param>
    /// <returns>A builder for conventions such as RequireAuthorization.</returns>
    /// <exception cref="OptionsValidationException">A list of the settings contains null; the message names it.</exception>
    public static IEndpointConventionBuilder MapBatchKitWebSockets(
        this IEndpointRouteBuilder endpoints,
        string pattern,
        BroadcastTransport transport,
        Func<ClientConnection, IConnectionHandler> handlers,
        WebSocketEndpointOptions? options = null,
        IOutputBuffer? output = null)
    {
        ArgumentNullException.ThrowIfNull(endpoints);
        ArgumentNullException.ThrowIfNull(pattern);
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentNullException.ThrowIfNull(handlers);
        var logger = transport.Guard(endpoints.ServiceProvider.GetRequiredService<ILogger<BroadcastTransport>>());
        options ??= new WebSocketEndpointOptions();
        ThrowIfNullWithin(options.AllowedOrigins, nameof(options.AllowedOrigins));
        ThrowIfNullWithin(options.SubProtocols, nameof(options.SubProtocols));
        var allowedHosts = AllowedHosts(endpoints.ServiceProvider);
        if (options.AllowedOrigins.Count == 0 && allowedHosts.Count == 0)
            Log.TrustsEveryHost(logger, pattern);
        if (HandleLimit.OfProcess is { } handles)
            transport.MostHandles = handles - ReserveForRequests(endpoints.ServiceProvider, handles);
        var endpoint = new WebSocketEndpoint(transport, handlers, options, allowedHosts, output, logger);
        var branch = endpoints.CreateApplicationBuilder();
        branch.Use(static next => context =>
        {
            UpgradeInterception.Attach(context);
            return next(context);
        });
        branch.UseWebSockets(new WebSocketOptions { KeepAliveInterval = Timeout.InfiniteTimeSpan });
        branch.Run(endpoint.InvokeAsync);
        return endpoints.Map(pattern, branch.Build()).WithDisplayName($"BatchKit WebSockets {pattern}");
    }

    // A missing key of a configuration gives null, which each request would fail with.
    private static void ThrowIfNullWithin(IList<string> setting, string name)
    {
        if (setting.Contains(null!))
            throw new OptionsValidationException("", typeof(WebSocketEndpointOptions), [$"{nameof(WebSocketEndpointOptions)}.{name} must not contain null."]);
    }

    /// <summary>Limits the connections that have sent no request, unless the application does: Kestrel has no such limit, and at the limit of handles the process ends.</summary>
    /// <returns>How many handles they can take.</returns>
    private static int ReserveForRequests(IServiceProvider services, int handles)
    {
        var limits = services.GetRequiredService<IOptions<KestrelServerOptions>>().Value.Limits;
        var reserve = HandleLimit.ForRequests(handles);
        limits.MaxConcurrentConnections ??= reserve;
        return (int)Math.Min(reserve, limits.MaxConcurrentConnections.Value);
    }

    private static BroadcastTransport FindTransport(IServiceProvider services, string bufferName) => services.GetKeyedService<BroadcastTransport>(bufferName)
        ?? throw new InvalidOperationException(BroadcastBuilderExtensions.WithoutClients("MapBatchKitWebSockets", bufferName));

    /// <summary>The hosts in the configuration's <c>AllowedHosts</c>, which ASP.NET Core's host filtering uses; none when every host is allowed.</summary>
    private static List<StringSegment> AllowedHosts(IServiceProvider services)
    {
        const string setting = "AllowedHosts";
        var configured = services.GetService<IConfiguration>()?[setting]?.Split(';', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);
        var hosts = configured is { Length: > 0 } ? configured : services.GetService<IOptions<HostFilteringOptions>>()?.Value.AllowedHosts ?? [];
        return hosts.Contains("*") ? [] : [.. hosts.Select(host => new StringSegment(host))];
    }
}
