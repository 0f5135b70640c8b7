using System.Net.Sockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Primitives;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Accepts WebSocket clients: checks each request, upgrades it, and runs its connection until it has ended.</summary>
internal sealed class WebSocketEndpoint(
    BroadcastTransport transport,
    Func<ClientConnection, IConnectionHandler> handlers,
    WebSocketEndpointOptions options,
    IReadOnlyList<StringSegment> allowedHosts,
    IOutputBuffer? output,
    ILogger logger)
{
    private readonly WebSocketAdmission _admission = new(
        options, allowedHosts, new ForwardedOrigin(transport.Options.TrustedProxies), origin => Log.OriginRefused(logger, transport.LogThrottle, origin));

    private readonly ForwardedOrigin _forwarded = new(transport.Options.TrustedProxies);

    private readonly TimeSpan _startLimit = StartLimit(transport.Options);

    public async Task InvokeAsync(HttpContext context)
    {
        if (!await _admission.TryAdmitAsync(context).ConfigureAwait(false))
            return;
        var origin = _forwarded.Read(context);
        var address = origin.RemoteEndPoint?.Address;
        using var place = new ClientPlace(transport.Connections);
        if (!place.TryTake(address))
        {
            Log.TurnedAway(logger, $"the connection limit is reached, in total or for {address}");
            Log.ClientsTurnedAway(logger, transport.LogThrottle, transport.Options);
            await WebSocketAdmission.RefuseAsync(context, StatusCodes.Status503ServiceUnavailable, "There are too many connections. Try again later.").ConfigureAwait(false);
            return;
        }

        await ServeAsync(context, origin, place).ConfigureAwait(false);
    }

    private async Task ServeAsync(HttpContext context, ConnectionOrigin origin, ClientPlace place)
    {
        var handle = transport.Connections.NextHandle();
        var path = new OutputPath(handle, logger);
        var interception = context.Features.Get<UpgradeInterception>()!;
        var direct = FindSocket(context, interception, path);
        var accepting = new WebSocketAcceptContext { SubProtocol = _admission.ChooseSubProtocol(context), KeepAliveInterval = Timeout.InfiniteTimeSpan };
        using var socket = await context.WebSockets.AcceptWebSocketAsync(accepting).ConfigureAwait(false);
        var stream = interception.Stream ?? new UpgradedStream(new MessageStream(socket));
        var ending = new UpgradedEnding(context);
        var wire = new UpgradedWire(stream.Server, direct, path, ending);
        try
        {
            await wire.StartAsync().ConfigureAwait(false);
        }
        catch (Exception failure) when (failure is IOException or OperationCanceledException)
        {
            Log.HandshakeFailed(logger, origin.RemoteEndPoint, failure.Message);
            return;
        }

        using var limit = transport.TimeProvider.CreateTimer(
            static state => ((OutputPath)state!).ChooseStream("the client sent no pong in time"), path, _startLimit, Timeout.InfiniteTimeSpan);
        var connection = Connect(handle, origin, wire);
        var inbound = new WebSocketInbound(connection, socket, stream, wire, path, ending, transport.Options, options, logger);
        await new ConnectionLifetime(transport, output, transport.TimeProvider, logger).RunAsync(connection, inbound, handlers, place).ConfigureAwait(false);
        await connection.Output.Ended.ConfigureAwait(false);
        ending.NoteEnd();
        if (!path.IsDirect && HttpProtocol.IsHttp11(context.Request.Protocol) && context.Features.Get<IConnectionLifetimeFeature>() is { } lingering)
            LingeringEnd.Start(lingering, transport.Options.CloseTimeout, transport.TimeProvider);
    }

    private Socket? FindSocket(HttpContext context, UpgradeInterception interception, OutputPath path)
    {
        Socket? socket = null;
        var obstacle = options.WritesDirectly ? DirectEligibility.FindObstacle(context, interception.Upgrade, out socket) : "the endpoint's options say so";
        if (obstacle is null)
            return socket;
        path.ChooseStream(obstacle);
        return null;
    }

    private ClientConnection Connect(OutputHandle handle, ConnectionOrigin origin, UpgradedWire wire)
    {
        var queue = new SendQueue(wire, transport.Limits, transport.Counters, transport.TimeProvider);
        var format = options.SendsBinary ? WireFormat.WebSocketBinary : WireFormat.WebSocketText;
        return new ClientConnection(handle, ClientProtocol.WebSocket, origin, queue, format, transport.TimeProvider) { Pace = transport.CreatePace(isText: !options.SendsBinary) };
    }

    // Half of the time limits after which a client that takes nothing is disconnected, so that a client that only sends no pong is not.
    private static TimeSpan StartLimit(BroadcastOptions limits)
    {
        var disconnecting = limits.SlowConsumerTimeout < limits.CloseTimeout ? limits.SlowConsumerTimeout : limits.CloseTimeout;
        return disconnecting / 2 < limits.HandshakeTimeout ? disconnecting / 2 : limits.HandshakeTimeout;
    }
}
