using System.Net;
using System.Security.Claims;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Http.Features.Authentication;
using Microsoft.Extensions.Primitives;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Decides from the request whether a client may connect, and answers the request when it may not.</summary>
/// <param name="options">The endpoint's settings.</param>
/// <param name="allowedHosts">The hosts that the configuration says the application serves; empty when it names none.</param>
/// <param name="forwarded">Tells whether the client uses TLS, to this server or to a trusted proxy.</param>
/// <param name="onOriginRefused">Reports the origin of a page that may not connect.</param>
internal sealed class WebSocketAdmission(
    WebSocketEndpointOptions options, IReadOnlyList<StringSegment> allowedHosts, ForwardedOrigin forwarded, Action<string> onOriginRefused)
{
    private const string AnyOrigin = "*";

    private readonly StringSegment[] _allowedHosts = [.. allowedHosts];

    /// <returns>False when the request was refused and answered.</returns>
    public async ValueTask<bool> TryAdmitAsync(HttpContext context)
    {
        if (!context.WebSockets.IsWebSocketRequest)
        {
            await RefuseOtherRequestAsync(context).ConfigureAwait(false);
            return false;
        }

        if (!IsOriginAllowed(context))
        {
            onOriginRefused(context.Request.Headers.Origin.ToString());
            await RefuseAsync(context, StatusCodes.Status403Forbidden, "Pages of this origin may not connect.").ConfigureAwait(false);
            return false;
        }

        if (options.Authenticate is null || await options.Authenticate(context).ConfigureAwait(false))
            return true;
        var status = context.Response.StatusCode == StatusCodes.Status200OK ? StatusCodes.Status401Unauthorized : context.Response.StatusCode;
        await RefuseAsync(context, status, "You may not connect.").ConfigureAwait(false);
        return false;
    }

    public string? ChooseSubProtocol(HttpContext context) =>
        options.SubProtocols.FirstOrDefault(protocol => context.WebSockets.WebSocketRequestedProtocols.Contains(protocol, StringComparer.Ordinal));

    public static Task RefuseAsync(HttpContext context, int status, string sentence)
    {
        if (context.Response.HasStarted)
            return Task.CompletedTask;
        context.Response.StatusCode = status;
        context.Response.ContentType = "text/plain; charset=utf-8";
        return context.Response.WriteAsync(sentence, context.RequestAborted);
    }

    private static Task RefuseOtherRequestAsync(HttpContext context)
    {
        // RFC 9110, section 15.5.22, and RFC 6455, section 4.4: name the protocol to upgrade to. HTTP/2 has no upgrade.
        if (!HttpProtocol.IsHttp11(context.Request.Protocol))
            return RefuseAsync(context, StatusCodes.Status400BadRequest, "This address is for WebSocket connections only.");
        context.Response.Headers.Upgrade = "websocket";
        context.Response.Headers.Connection = "Upgrade";
        context.Response.Headers.SecWebSocketVersion = "13";
        return RefuseAsync(context, StatusCodes.Status426UpgradeRequired, "This address is for WebSocket connections only, of version 13.");
    }

    private bool IsOriginAllowed(HttpContext context)
    {
        var origin = context.Request.Headers.Origin.ToString();
        if (origin.Length == 0)
            return true;
        if (options.AllowedOrigins.Count > 0)
            return options.AllowedOrigins.Any(allowed => allowed == AnyOrigin || allowed.Equals(origin, StringComparison.OrdinalIgnoreCase));
        if (!Uri.TryCreate(origin, UriKind.Absolute, out var page) || page.PathAndQuery != "/")
            return false;
        var isSameScheme = page.Scheme == (forwarded.Read(context).IsSecure ? Uri.UriSchemeHttps : Uri.UriSchemeHttp);
        if (_allowedHosts.Length > 0)
            return (isSameScheme || page.Scheme == Uri.UriSchemeHttps) && HostString.MatchesAny(page.Host, _allowedHosts) && IsPortAllowed(page, context.Request.Host);
        return isSameScheme && context.Request.Host.HasValue && page.Authority.Equals(WithoutDefaultPort(context.Request.Host, page), StringComparison.OrdinalIgnoreCase);
    }

    // Another port of this host is another server. A page of another name has a default port: a proxy between may have changed the request's host.
    private static bool IsPortAllowed(Uri page, HostString host)
    {
        var isSamePort = host.Port is { } port ? page.Port == port : page.IsDefaultPort;
        return isSamePort || (page.IsDefaultPort && !page.Host.Equals(host.Host, StringComparison.OrdinalIgnoreCase));
    }

    // A URI omits its scheme's default port.
    private static string WithoutDefaultPort(HostString host, Uri page) => host.Port is { } port && page.IsDefaultPort && port == page.Port ? host.Host : host.Value!;
}

/// <summary>Finds where a request comes from. It uses only the headers of trusted proxies.</summary>
internal sealed class ForwardedOrigin(IList<IPNetwork> trustedProxies)
{
    private const string ForHeader = "X-Forwarded-For";
    private const string ProtoHeader = "X-Forwarded-Proto";

    public ConnectionOrigin Read(HttpContext context)
    {
        var end = EndPointOf(context);
        if (end is null || !IsTrusted(end.Address))
            return new ConnectionOrigin(end, context.Request.IsHttps, UserOf(context), IsRequest: true);
        var scheme = LastOf(context.Request.Headers[ProtoHeader].ToString());
        var isSecure = scheme.IsEmpty ? context.Request.IsHttps : scheme.Equals("https", StringComparison.OrdinalIgnoreCase);
        return new ConnectionOrigin(FindClient(end, context.Request.Headers[ForHeader].ToString()), isSecure, UserOf(context), IsRequest: true);
    }

    /// <summary>The last address that is not a trusted proxy's. The client may have forged any address before it.</summary>
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

    // The features themselves: the context would create an object for the connection, and another for its end point, which the socket has already.
    private static IPEndPoint? EndPointOf(HttpContext context)
    {
        if (context.Features.Get<IHttpConnectionFeature>() is not { RemoteIpAddress: { } address } connection)
            return null;
        var socketsOwn = context.Features.Get<IConnectionEndPointFeature>()?.RemoteEndPoint as IPEndPoint;
        return socketsOwn?.Port == connection.RemotePort && socketsOwn.Address.Equals(address) ? socketsOwn : new IPEndPoint(address, connection.RemotePort);
    }

    // The context itself would create an anonymous user.
    private static ClaimsPrincipal? UserOf(HttpContext context) => context.Features.Get<IHttpAuthenticationFeature>()?.User;

    private bool IsTrusted(IPAddress address)
    {
        var plain = address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address;
        return trustedProxies.Any(network => network.Contains(plain));
    }

    private static ReadOnlySpan<char> LastOf(ReadOnlySpan<char> list) => list[(list.LastIndexOf(',') + 1)..].Trim();
}
