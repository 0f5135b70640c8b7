using System.Security.Cryptography.X509Certificates;

namespace BatchKit.TestServers.Mosquitto;

/// <summary>What a started broker should be like. What is not set here is as Mosquitto has it.</summary>
public sealed class MosquittoServerOptions
{
    /// <summary>Whether sessions, queued and retained messages outlive a stop in good order; true by default.</summary>
    public bool Persistence { get; init; } = true;

    /// <summary>With a certificate and its private key it listens for TLS too, on <see cref="MosquittoServer.TlsPort"/>; none by default.</summary>
    public X509Certificate2? Certificate { get; init; }

    /// <summary>With one, the TLS port lets in only clients with a certificate that this one signed; none by default.</summary>
    public X509Certificate2? ClientAuthority { get; init; }

    /// <summary>With one, only it is let in, with <see cref="Password"/>; by default everyone is.</summary>
    public string? UserName { get; init; }

    /// <summary>The password of <see cref="UserName"/>.</summary>
    public string Password { get; init; } = "";

    /// <summary>The lines of <c>acl_file</c>, which <see cref="MosquittoServer.ChangeAccess"/> replaces; without them everyone may do everything.</summary>
    public IReadOnlyList<string>? Access { get; init; }

    /// <summary>Sets <c>set_tcp_nodelay</c>; false by default.</summary>
    public bool NoDelay { get; init; }

    /// <summary><c>max_inflight_messages</c>, which is also the Receive Maximum that MQTT 5 clients are told; Mosquitto's default is 20.</summary>
    public int? MaxInflight { get; init; }

    /// <summary><c>max_queued_messages</c> for each client, 0 for no limit; Mosquitto's default is 1000, and it drops what is above in silence.</summary>
    public int? MaxQueued { get; init; }

    /// <summary>More lines for the configuration's general part; none by default.</summary>
    public IReadOnlyList<string> Lines { get; init; } = [];
}
