using System.Security.Cryptography.X509Certificates;

namespace BatchKit.TestServers.Postgres;

/// <summary>What a started PostgreSQL should be like. What is not set here is as PostgreSQL has it.</summary>
public sealed class PostgresServerOptions
{
    /// <summary><c>max_connections</c>; 200 by default.</summary>
    public int MaxConnections { get; init; } = 200;

    /// <summary>Its port on loopback; a free one when null, the default.</summary>
    public int? Port { get; init; }

    /// <summary>With a certificate and its private key it speaks TLS; none by default.</summary>
    public X509Certificate2? Certificate { get; init; }

    /// <summary>More lines for <c>postgresql.conf</c>, behind our own, so that they win; none by default.</summary>
    public IReadOnlyList<string> Lines { get; init; } = [];

    /// <summary>Environment variables of the server, such as <c>LD_PRELOAD</c>; none by default.</summary>
    public IReadOnlyDictionary<string, string> Environment { get; init; } = new Dictionary<string, string>();
}
