using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.WebSockets;
using Microsoft.AspNetCore.Server.Kestrel.Core;

namespace BatchKit.Broadcast;

/// <summary>Limits connections to Kestrel before they send a request.</summary>
public static class ListenOptionsExtensions
{
    /// <summary>Closes each connection whose address has as many connections to this endpoint as given, so that one address can't take all of Kestrel's <c>MaxConcurrentConnections</c>. On Linux it also closes those that would take the last file handles of the process.</summary>
    /// <remarks>
    /// A WebSocket client (HTTP/1.1) of <c>MapBatchKitWebSockets</c> counts until it is upgraded; from then on <see cref="BroadcastOptions.MaxConnectionsPerAddress"/> counts it. All addresses of one /64 network of IPv6
    /// count as one. Behind a proxy all connections have the proxy's address: limit them there.
    /// </remarks>
    /// <param name="listen">The endpoint.</param>
    /// <param name="maxConnections">The most connections of one address. A browser opens six.</param>
    /// <returns>The endpoint.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="maxConnections"/> is below 1.</exception>
    public static ListenOptions LimitConnectionsPerAddress(this ListenOptions listen, int maxConnections)
    {
        ArgumentNullException.ThrowIfNull(listen);
        ArgumentOutOfRangeException.ThrowIfLessThan(maxConnections, 1);
        var places = new RequestPlaces(maxConnections, HandleLimit.OfProcess);
        listen.Use(next => connection => places.ServeAsync(connection, next));
        return listen;
    }
}
