using System.Security.Cryptography.X509Certificates;

namespace BatchKit.TestServers.RabbitMQ;

/// <summary>What a started broker should be like.</summary>
public sealed class RabbitMqServerOptions
{
    /// <summary>With a certificate and its private key it listens for TLS too, on <see cref="RabbitMqServer.TlsPort"/>; none by default.</summary>
    public X509Certificate2? Certificate { get; init; }

    /// <summary>The only version of TLS that it speaks, as Erlang calls it (<c>tlsv1.1</c>); none by default, which leaves the broker's own choice.</summary>
    public string? TlsVersion { get; init; }

    /// <summary>The largest message that it takes, in bytes; none by default, which leaves the broker's own limit.</summary>
    public int? MaxMessageBytes { get; init; }

    /// <summary>How long it may take to start; three minutes by default, because continuous integration shares its cores.</summary>
    public TimeSpan StartLimit { get; init; } = TimeSpan.FromSeconds(180);
}
