using System.Net.Sockets;
using System.Net.WebSockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tcp;
using BatchKit.Diagnostics;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
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

    private readonly ConnectionLifetime _lifetime = new(transport, output, transport.Clock, logger);
    private readonly TimeSpan _startLimit = StartLimit(transport.Options);

    /// <summary>Serves a request until its connection has ended. A client that is silent holds one state machine for it.</summary>
    public Task InvokeAsync(HttpContext context)
    {
        var admitting = _admission.TryAdmitAsync(context);
        if (!admitting.IsCompletedSuccessfully)
            return InvokeSlowAsync(admitting, context);
        return admitting.Result ? ServeAsync(context) : Task.CompletedTask;
    }

    private async Task InvokeSlowAsync(ValueTask<bool> admitting, HttpContext context)
    {
        if (await admitting.ConfigureAwait(false))
            await ServeAsync(context).ConfigureAwait(false);
    }

    private Task ServeAsync(HttpContext context)
    {
        var origin = _forwarded.Read(context);
        var address = origin.RemoteEndPoint?.Address;
        var place = new ClientPlace(transport.Connections);
        var isNearLimit = OwnSocket(context) is { } socket && HandleLimit.IsNear(socket, transport.MostHandles);
        if (!isNearLimit && place.TryTake(address))
        {
            var starting = StartAsync(context, origin, place);
            return starting.IsCompletedSuccessfully ? RunAsync(starting.Result, context) : RunSlowAsync(starting, context);
        }

        Log.TurnedAway(logger, isNearLimit ? "the process has nearly no file handles left (ulimit -n)" : $"the connection limit is reached, in total or for {address}");
        Log.ClientsTurnedAway(logger, transport.LogThrottle, transport.Options);
        // It would else keep its connection, and its file handle, until the server's own limits end that.
        if (HttpProtocol.IsHttp11(context.Request.Protocol) && !context.Response.HasStarted)
            context.Response.Headers.Connection = "close";
        return WebSocketAdmission.RefuseAsync(context, StatusCodes.Status503ServiceUnavailable, "There are too many connections. Try again later.");
    }

    private async Task RunSlowAsync(Task<HandlerCalls?> starting, HttpContext context) =>
        await RunAsync(await starting.ConfigureAwait(false), context).ConfigureAwait(false);

    private async Task RunAsync(HandlerCalls? calls, HttpContext context)
    {
        if (calls is null)
            return;
        await calls.Connection.Output.Ending.ConfigureAwait(false);
        await EndAsync(calls, context).ConfigureAwait(false);
    }

    /// <summary>Upgrades a request and starts its connection.</summary>
    /// <returns>Null when the client was gone.</returns>
    private async Task<HandlerCalls?> StartAsync(HttpContext context, ConnectionOrigin origin, ClientPlace place)
    {
        WebSocket? socket = null;
        HandlerCalls? calls = null;
        try
        {
            var handle = transport.Connections.NextHandle();
            var path = new OutputPath(handle, logger);
            var interception = UpgradeInterception.Of(context);
            var direct = FindSocket(context, interception?.Upgrade, path);
            var accepting = new WebSocketAcceptContext { SubProtocol = _admission.ChooseSubProtocol(context), KeepAliveInterval = Timeout.InfiniteTimeSpan };
            socket = await context.WebSockets.AcceptWebSocketAsync(accepting).ConfigureAwait(false);
            // As Kestrel does with its own limit. An HTTP/2 connection may carry requests too.
            if (HttpProtocol.IsHttp11(context.Request.Protocol))
                context.Features.Get<RequestPlace>()?.Dispose();
            var stream = interception?.Stream ?? new UpgradedStream(new MessageStream(socket));
            var wire = new UpgradedWire(stream.Server, direct, path, new UpgradedEnding(context), OwnSocket(context));
            await wire.StartAsync().ConfigureAwait(false);
            return calls = Start(Connect(handle, origin, wire), socket, stream, wire, place);
        }
        catch (Exception failure) when (failure is IOException or OperationCanceledException or SocketException or ObjectDisposedException)
        {
            // Its socket may be gone at every step: the server would log an error for each such client.
            Log.ClientLeft(logger, origin.RemoteEndPoint, FailureText.MessageOf(failure));
            return null;
        }
        finally
        {
            if (calls is null)
            {
                socket?.Dispose();
                place.Dispose();
            }
        }
    }

    private HandlerCalls Start(ClientConnection connection, WebSocket socket, UpgradedStream stream, UpgradedWire wire, ClientPlace place)
    {
        wire.Path.ChooseWithin(_startLimit, transport.Clock);
        var inbound = new WebSocketInbound(connection, socket, stream, wire, transport.Options, options, logger);
        return _lifetime.Start(connection, inbound, handlers, place);
    }

    private async Task EndAsync(HandlerCalls calls, HttpContext context)
    {
        var inbound = (WebSocketInbound)calls.Inbound!;
        using var socket = inbound.Socket;
        using var place = calls.Place;
        await _lifetime.EndAsync(calls).ConfigureAwait(false);
        await calls.Connection.Output.Ended.ConfigureAwait(false);
        inbound.Wire.Ending.NoteEnd();
        if (!inbound.Wire.Path.IsDirect && HttpProtocol.IsHttp11(context.Request.Protocol) && context.Features.Get<IConnectionLifetimeFeature>() is { } lingering)
            LingeringEnd.Start(lingering, transport.Options.CloseTimeout, transport.Clock);
    }

    // Under HTTP/2 the socket carries other requests too.
    private static Socket? OwnSocket(HttpContext context) =>
        HttpProtocol.IsHttp11(context.Request.Protocol) ? context.Features.Get<IConnectionSocketFeature>()?.Socket : null;

    private Socket? FindSocket(HttpContext context, IHttpUpgradeFeature? upgrade, OutputPath path)
    {
        if (transport.Options.SendBufferBytes is { } bytes && OwnSocket(context) is { } own)
            own.SendBufferSize = bytes;
        Socket? socket = null;
        var obstacle = options.WritesDirectly ? DirectEligibility.FindObstacle(context, upgrade, out socket) : "the endpoint's options say so";
        if (obstacle is null)
            return socket;
        path.ChooseStream(obstacle);
        return null;
    }

    private ClientConnection Connect(OutputHandle handle, ConnectionOrigin origin, UpgradedWire wire)
    {
        var queue = new SendQueue(wire, transport.Limits, transport.Counters, transport.Clock);
        var format = options.SendsBinary ? WireFormat.WebSocketBinary : WireFormat.WebSocketText;
        return new ClientConnection(handle, ClientProtocol.WebSocket, origin, queue, format, transport.Clock) { InputLimits = transport.InputLimitsFor(isText: !options.SendsBinary) };
    }

    // Half of the time limits after which a client that reads nothing is disconnected. A client that reads, but sends no pong, is then still connected when the stream is chosen.
    private static TimeSpan StartLimit(BroadcastOptions limits)
    {
        var disconnecting = limits.SlowConsumerTimeout < limits.CloseTimeout ? limits.SlowConsumerTimeout : limits.CloseTimeout;
        return disconnecting / 2 < limits.HandshakeTimeout ? disconnecting / 2 : limits.HandshakeTimeout;
    }
}
