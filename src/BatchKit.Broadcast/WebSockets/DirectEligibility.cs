using System.Net.Sockets;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Core.Features;
using Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Decides whether the bytes of an upgraded request are the bytes of its socket, so that frames may be written to it directly.</summary>
internal static class DirectEligibility
{
    /// <param name="context">The request, not upgraded yet.</param>
    /// <param name="upgrade">The server's own upgrade.</param>
    /// <param name="socket">The socket, when nothing stands between it and the request.</param>
    /// <returns>What stands between; null when nothing does.</returns>
    public static string? FindObstacle(HttpContext context, IHttpUpgradeFeature? upgrade, out Socket? socket)
    {
        var features = context.Features;
        socket = features.Get<IConnectionSocketFeature>()?.Socket;

        // Under HTTP/2 all else looks the same, and the socket has other requests' bytes too.
        if (!HttpProtocol.IsHttp11(context.Request.Protocol))
            return $"the request came by {context.Request.Protocol}";
        if (upgrade is not { IsUpgradableRequest: true } || !IsOf<KestrelServer>(upgrade))
            return "the upgrade is not Kestrel's own";
        if (features.Get<ITlsHandshakeFeature>() is not null)
            return "it is encrypted";

        // Connection middleware, such as TLS or logging, puts a pipe of its own in place of the transport's.
        if (features.Get<IConnectionTransportFeature>() is not { } connection || !IsOf<SocketTransportOptions>(connection.Transport))
            return "connection middleware changes its bytes, or may";
        return socket is { SocketType: SocketType.Stream, AddressFamily: AddressFamily.InterNetwork or AddressFamily.InterNetworkV6 }
            ? null
            : "it has no TCP socket";
    }

    private static bool IsOf<TNeighbour>(object part) => part.GetType().Assembly == typeof(TNeighbour).Assembly;
}
