using Microsoft.AspNetCore.Http;

namespace BatchKit.Broadcast;

/// <summary>Settings of one mapped WebSocket endpoint. Read once, when it is mapped.</summary>
public sealed class WebSocketEndpointOptions
{
    /// <summary>True to send binary messages; false, the default, for text. In text, each byte that is no part of valid UTF-8 becomes a question mark, because a client must end the connection over it (RFC 6455, section 8.1).</summary>
    public bool SendsBinary { get; set; }

    /// <summary>
    /// Origins of web pages that may connect, each as a browser sends it, such as <c>https://play.example</c>; <c>*</c> allows all. Empty by default: only pages of the host that the
    /// request itself names. Any other page's request gets status 403. A client that names no origin is no browser, and passes (RFC 6455, section 10.2).
    /// </summary>
    public IList<string> AllowedOrigins { get; } = [];

    /// <summary>Sub-protocols that the server speaks, the preferred one first; empty by default. The first that the client offers too is agreed on, or else none (RFC 6455, section 1.9).</summary>
    public IList<string> SubProtocols { get; } = [];

    /// <summary>
    /// True, the default, to write to a client's socket directly where that is safe: on plain HTTP/1.1 under Kestrel, with nothing between. False to go through the server's stream always, which
    /// costs about half as much again for a large group, and is what happens with TLS, HTTP/2, Unix sockets, connection middleware and other servers anyway.
    /// </summary>
    public bool WritesDirectly { get; set; } = true;

    /// <summary>
    /// Says whether a client may connect; null by default, which lets all in. It may look at the request's cookies, headers and user. On false the request gets status 401, or what was
    /// set as the response's status. What it throws is the request's failure.
    /// </summary>
    public Func<HttpContext, ValueTask<bool>>? Authenticate { get; set; }
}
