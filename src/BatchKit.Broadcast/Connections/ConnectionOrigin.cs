using System.Net;
using System.Security.Claims;

namespace BatchKit.Broadcast.Connections;

/// <summary>Where a connection comes from.</summary>
internal sealed record ConnectionOrigin(IPEndPoint? RemoteEndPoint, bool IsSecure, ClaimsPrincipal? User = null);
