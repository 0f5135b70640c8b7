using System.Net;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Lets one client in after another: checks its request, upgrades it, and leads its connection until it is gone.</summary>
internal sealed class WebSocketEndpoint(
    BroadcastTransport transport, Func<ClientConnection, IConnectionHandler> handlers, WebSocketEndpointOptions options, IOutputBuffer? output, ILogger logger)
{
    private readonly WebSocketAdmission _admission = new(options);
    private readonly ForwardedOrigin _forwarded = new(transport.Options.TrustedProxies);

    public async Task InvokeAsync(HttpContext context)
    {
        if (!await _admission.TryAdmitAsync(context).ConfigureAwait(false))
            return;
        var origin = _forwarded.Read(context);
        var address = origin.RemoteEndPoint?.Address;
        if (!transport.Connections.TryTakePlace(address))
        {
            Log.TurnedAway(logger, $"no room for another connection of {address}");
            await WebSocketAdmission.RefuseAsync(context, StatusCodes.Status503ServiceUnavailable, "There are too many connections. Try again later.").ConfigureAwait(false);
            return;
        }

        try
        {
            await ServeAsync(context, origin).ConfigureAwait(false);
        }
        finally
        {
            transport.Connections.ReleasePlace(address);
        }
    }

    private async Task ServeAsync(HttpContext context, ConnectionOrigin origin)
    {
        var accepting = new WebSocketAcceptContext { SubProtocol = _admission.ChooseSubProtocol(context), KeepAliveInterval = Timeout.InfiniteTimeSpan };
        using var socket = await context.WebSockets.AcceptWebSocketAsync(accepting).ConfigureAwait(false);
        var stream = context.Features.Get<UpgradeInterception>()!.Stream!;
        var wire = new UpgradedWire(stream.Server, context.Abort);
        var queue = new SendQueue(wire, transport.Limits, transport.Counters, transport.TimeProvider);
        var format = options.SendsBinary ? WireFormat.WebSocketBinary : WireFormat.WebSocketText;
        var connection = new ClientConnection(transport.Connections.NextHandle(), ClientProtocol.WebSocket, origin, queue, format, transport.TimeProvider);
        var inbound = new WebSocketInbound(connection, socket, stream, wire, transport.Options, logger);
        await new ConnectionLife(transport, output, transport.TimeProvider, logger).RunAsync(connection, inbound, handlers).ConfigureAwait(false);
        await queue.Ended.ConfigureAwait(false);
        wire.Detach();
    }
}
