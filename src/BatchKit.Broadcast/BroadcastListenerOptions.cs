using System.ComponentModel.DataAnnotations;
using System.Net;
using System.Net.Security;
using BatchKit.Broadcast.Telnet;
using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast;

/// <summary>Settings of one listener. Read once, when it is made; a value outside its range stops the start and names the setting.</summary>
public sealed class BroadcastListenerOptions : IValidatableObject
{
    /// <summary>What its clients speak: <see cref="ClientProtocol.Tcp"/>, the default, or <see cref="ClientProtocol.Telnet"/>.</summary>
    public ClientProtocol Protocol { get; set; } = ClientProtocol.Tcp;

    /// <summary>Where it listens; port 4000 on all IPv4 addresses by default. Port 0 takes a free one. <see cref="IPAddress.IPv6Any"/> listens for IPv4 too.</summary>
    [Required]
    public IPEndPoint EndPoint { get; set; } = new(IPAddress.Any, 4000);

    /// <summary>Cuts what TCP clients send into records; lines by default. Telnet clients always send lines.</summary>
    [Required]
    public IRecordCutter Cutter { get; set; } = LineCutter.Shared;

    /// <summary>
    /// What the server needs for TLS, at least a certificate; null, the default, for none. The handshake must end within <see cref="BroadcastOptions.HandshakeTimeout"/>.
    /// </summary>
    public SslServerAuthenticationOptions? Tls { get; set; }

    /// <summary>
    /// True when all clients come by proxies that say whose connection it is, by version 1 or 2 of the PROXY protocol (HAProxy's proxy-protocol.txt); false by
    /// default. Connections from outside <see cref="BroadcastOptions.TrustedProxies"/>, and those that do not begin so, are ended.
    /// </summary>
    public bool UseProxyProtocol { get; set; }

    /// <summary>The most connections that the system keeps until they are accepted; 512 by default, and the system's own limit (on Linux net.core.somaxconn) holds too.</summary>
    [Range(1, 65_535)]
    public int Backlog { get; set; } = 512;

    /// <summary>What holds for telnet clients alone.</summary>
    [Required]
    [ValidateObjectMembers]
    public TelnetOptions Telnet { get; set; } = new();

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (Protocol is not (ClientProtocol.Tcp or ClientProtocol.Telnet))
            yield return new ValidationResult($"{nameof(Protocol)} ({Protocol}) must be {ClientProtocol.Tcp} or {ClientProtocol.Telnet}.", [nameof(Protocol)]);
        if (Tls is { ServerCertificate: null, ServerCertificateContext: null, ServerCertificateSelectionCallback: null })
            yield return new ValidationResult($"{nameof(Tls)} needs a server certificate, or a callback that selects one.", [nameof(Tls)]);
    }
}
