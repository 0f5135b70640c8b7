using Microsoft.AspNetCore.Http;

namespace BatchKit.Broadcast;

/// <summary>Settings of one WebSocket endpoint. Set them before it is mapped.</summary>
public sealed class WebSocketEndpointOptions
{
    /// <summary>True to send binary messages; false, the default, for text. In text, each byte that is not part of valid UTF-8 becomes a question mark, because a client must end the connection on invalid text (RFC 6455, section 8.1).</summary>
    public bool SendsBinary { get; set; }

    /// <summary>
    /// Whether clients may send binary messages, which no filter changes. Null, the default: only where <see cref="SendsBinary"/> is true. Elsewhere a client that sends one is
    /// disconnected with status 1003 (RFC 6455, section 7.4.1).
    /// </summary>
    public bool? AcceptsBinary { get; set; }

    /// <summary>True, the default, to pass texts through the filter <see cref="PlayerText"/> before the handler gets them. Binary messages are never changed.</summary>
    public bool FiltersText { get; set; } = true;

    /// <summary>True to keep line feeds in filtered texts, for a handler that splits them into lines; false, the default, to make each a space.</summary>
    public bool KeepsLineFeeds { get; set; }

    /// <summary>
    /// Origins of web pages that may connect, each as a browser sends it, such as <c>https://play.example</c>; <c>*</c> allows all. A request from any other page gets status 403. A request without an
    /// origin does not come from a browser and is accepted (RFC 6455, section 10.2).
    /// </summary>
    /// <remarks>
    /// While it is empty, the default, pages of the hosts in the configuration's <c>AllowedHosts</c> may connect, with the request's scheme or <c>https</c> and the request's port; with the
    /// default port too if the request names another host, as behind some proxies. When that is not set either, pages of the host that the
    /// request itself names may connect, with the request's scheme, and a warning is logged at the start: a page that gives its own name this machine's address (DNS rebinding) may then connect too.
    /// </remarks>
    public IList<string> AllowedOrigins { get; } = [];

    /// <summary>Sub-protocols that the server supports, in order of preference; empty by default. The first that the client also offers is chosen, or none (RFC 6455, section 1.9).</summary>
    public IList<string> SubProtocols { get; } = [];

    /// <summary>
    /// True, the default, to write to a client's socket directly when that is safe: on plain HTTP/1.1 under Kestrel without connection middleware. False to always write through the server's stream, which
    /// takes about 50 % more time for a large group. TLS, HTTP/2, Unix sockets, connection middleware and other servers always use the server's stream.
    /// </summary>
    public bool WritesDirectly { get; set; } = true;

    /// <summary>
    /// Decides whether a client may connect, for instance from the request's cookies, headers or user; null, the default, to accept all. On false the request gets status 401, or the status that
    /// the callback set on the response. An exception fails the request.
    /// </summary>
    public Func<HttpContext, ValueTask<bool>>? Authenticate { get; set; }
}
