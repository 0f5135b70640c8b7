using System.Net;

namespace BatchKit.Broadcast.Tcp;

/// <summary>What a proxy says of the connection that it passes on.</summary>
/// <param name="IsPassedOn">False for the proxy's own connection, as for a health check, and where it does not say: the socket's address counts then.</param>
/// <param name="Client">The client's end point; null where it has none, as on a Unix socket.</param>
/// <param name="IsSecure">True when the client came to the proxy by TLS.</param>
internal readonly record struct ProxyHeader(bool IsPassedOn, IPEndPoint? Client, bool IsSecure);
