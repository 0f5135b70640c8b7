using System.Net;
using BatchKit.Broadcast.Connections;
using Microsoft.AspNetCore.Http;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Where a request comes from: the proxy's word is taken when the proxy is trusted.</summary>
internal sealed class ForwardedOrigin(IList<IPNetwork> trustedProxies)
{
    private const string ForHeader = "X-Forwarded-For";
    private const string ProtoHeader = "X-Forwarded-Proto";

    public ConnectionOrigin Read(HttpContext context)
    {
        var address = context.Connection.RemoteIpAddress;
        var end = address is null ? null : new IPEndPoint(address, context.Connection.RemotePort);
        if (end is null || !IsTrusted(end.Address))
            return new ConnectionOrigin(end, context.Request.IsHttps, context.User);
        var scheme = LastOf(context.Request.Headers[ProtoHeader].ToString());
        var isSecure = scheme.IsEmpty ? context.Request.IsHttps : scheme.Equals("https", StringComparison.OrdinalIgnoreCase);
        return new ConnectionOrigin(FindClient(end, context.Request.Headers[ForHeader].ToString()), isSecure, context.User);
    }

    /// <summary>The last address that is not a trusted proxy's: what stands before it, the client may have made up.</summary>
    private IPEndPoint FindClient(IPEndPoint proxy, string forwardedFor)
    {
        var client = proxy;
        var rest = forwardedFor.AsSpan();
        while (!rest.IsEmpty && IsTrusted(client.Address))
        {
            var last = LastOf(rest);
            rest = rest[..Math.Max(0, rest.LastIndexOf(','))];
            if (!IPEndPoint.TryParse(last, out var found))
                return client;
            client = found;
        }

        return client;
    }

    private bool IsTrusted(IPAddress address)
    {
        var plain = address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address;
        return trustedProxies.Any(network => network.Contains(plain));
    }

    private static ReadOnlySpan<char> LastOf(ReadOnlySpan<char> list) => list[(list.LastIndexOf(',') + 1)..].Trim();
}
