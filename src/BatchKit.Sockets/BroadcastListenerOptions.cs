using System.ComponentModel.DataAnnotations;
using System.Net;
using System.Net.Security;
using BatchKit.Broadcast.Telnet;
using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast;

/// <summary>Settings of one listener. They are read once, when the listener is created. A value outside its range throws there and names the setting.</summary>
public sealed class BroadcastListenerOptions : IValidatableObject
{
    /// <summary>The protocol of its clients: <see cref="ClientProtocol.Tcp"/>, the default, or <see cref="ClientProtocol.Telnet"/>.</summary>
    public ClientProtocol Protocol { get; set; } = ClientProtocol.Tcp;

    /// <summary>The end point it listens on; port 4000 on all IPv4 addresses by default. Port 0 takes a free port. <see cref="IPAddress.IPv6Any"/> listens for IPv4 too.</summary>
    [Required]
    public IPEndPoint EndPoint { get; set; } = new(IPAddress.Any, 4000);

    /// <summary>Splits what TCP clients send into records; at line ends by default. It does not apply to telnet clients, which always send lines.</summary>
    [Required]
    public IRecordCutter Cutter { get; set; } = LineCutter.Shared;

    /// <summary>
    /// The settings of TLS, with at least a certificate; null, the default, for no TLS. The handshake must end within <see cref="BroadcastOptions.HandshakeTimeout"/>.
    /// </summary>
    public SslServerAuthenticationOptions? Tls { get; set; }

    /// <summary>
    /// True when all clients connect through proxies that send the client's address by the PROXY protocol, version 1 or 2 (HAProxy's proxy-protocol.txt); false by
    /// default. Connections from outside <see cref="BroadcastOptions.TrustedProxies"/>, and those that do not start with its header, are closed.
    /// </summary>
    public bool UseProxyProtocol { get; set; }

    /// <summary>
    /// The most connections that the system queues until they are accepted; 4,096 by default, so that all clients can reconnect at once: the system of a client that finds no place retries only after a
    /// second. From 1 to 65,535. The system's own limit (on Linux net.core.somaxconn, which is 4,096 there by default) applies too.
    /// </summary>
    [Range(1, 65_535)]
    public int Backlog { get; set; } = 4096;

    /// <summary>
    /// Whether records pass the filter <see cref="PlayerText"/> before the handler gets them. Null, the default: yes for telnet clients and no for TCP clients, whose records may be binary.
    /// </summary>
    public bool? FiltersText { get; set; }

    /// <summary>Settings for telnet clients only.</summary>
    [Required]
    [ValidateObjectMembers]
    public TelnetOptions Telnet { get; set; } = new();

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (Protocol is not (ClientProtocol.Tcp or ClientProtocol.Telnet))
            yield return new ValidationResult($"{nameof(Protocol)} ({Protocol}) must be {ClientProtocol.Tcp} or {ClientProtocol.Telnet}.", [nameof(Protocol)]);
        if (Tls is { ServerCertificate: null, ServerCertificateContext: null, ServerCertificateSelectionCallback: null })
            yield return new ValidationResult($"{nameof(Tls)} has no server certificate. Set one, or a callback that selects one.", [nameof(Tls)]);
    }
}

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class BroadcastListenerOptionsValidator : IValidateOptions<BroadcastListenerOptions>;
