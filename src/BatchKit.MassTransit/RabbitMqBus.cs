using System.Net.Security;
using System.Security.Authentication;
using MassTransit;
using RabbitMQ.Client;

namespace BatchKit.MassTransit;

/// <summary>Creates a buffer's own bus over RabbitMQ.</summary>
internal static class RabbitMqBus
{
    private const int AmqpTlsPort = 5671;

    public static IBusControl Create(MassTransitRabbitMqOptions options, string name, BusLink link) => Bus.Factory.CreateUsingRabbitMq(bus =>
    {
        var (host, port) = options.First;
        bus.Host(host, (ushort)port, options.VirtualHost, options.ConnectionName ?? name, connection =>
        {
            Configure(connection, options);
            // MassTransit calls this before each attempt to connect.
            connection.OnRefreshConnectionFactory = link.PrepareAsync;
        });
    });

    /// <summary>Opens a connection with the settings of the bus.</summary>
    public static Task<IConnection> ConnectAsync(MassTransitRabbitMqOptions options, string name, CancellationToken cancellationToken)
    {
        var factory = new ConnectionFactory
        {
            UserName = options.UserName,
            Password = options.Password,
            VirtualHost = options.VirtualHost,
            AutomaticRecoveryEnabled = false,
            RequestedHeartbeat = options.Heartbeat,
            RequestedConnectionTimeout = options.ConnectTimeout,
            HandshakeContinuationTimeout = options.ConnectTimeout,
            ContinuationTimeout = options.ConnectTimeout,
        };
        var hosts = options.Hosts.Count == 0 ? [options.First] : options.Hosts.Select(options.Split);
        var endpoints = hosts.Select(host => new AmqpTcpEndpoint(host.Host, host.Port, new SslOption
        {
            Enabled = options.UseTls || options.First.Port == AmqpTlsPort,
            ServerName = options.TlsServerName ?? host.Host,
            CertificateValidationCallback = options.ValidateServerCertificate,
            Certs = options.ClientCertificate is { } certificate ? [certificate] : null,
        }));
        return factory.CreateConnectionAsync(endpoints, name, cancellationToken);
    }

    private static void Configure(IRabbitMqHostConfigurator connection, MassTransitRabbitMqOptions options)
    {
        connection.Username(options.UserName);
        connection.Password(options.Password);
        connection.Heartbeat(options.Heartbeat);
        connection.RequestedConnectionTimeout(options.ConnectTimeout);
        connection.ContinuationTimeout(options.ConnectTimeout);
        // For this port MassTransit turns TLS on itself, with its own defaults.
        if (options.UseTls || options.First.Port == AmqpTlsPort)
            connection.UseSsl(tls => Configure(tls, options));
        if (options.Hosts.Count > 1)
        {
            connection.UseCluster(cluster =>
            {
                // MassTransit tries them in their order. The random order spreads the connections over the brokers.
                var entries = options.Hosts.ToArray();
                Random.Shared.Shuffle(entries);
                foreach (var entry in entries)
                {
                    var (host, port) = options.Split(entry);
                    cluster.Node($"{host}:{port}");
                }
            });
        }
    }

    private static void Configure(IRabbitMqSslConfigurator tls, MassTransitRabbitMqOptions options)
    {
        // By default MassTransit uses only TLS 1.2 and accepts a certificate of any issuer.
        tls.Protocol = SslProtocols.None;
        tls.EnforcePolicyErrors(SslPolicyErrors.RemoteCertificateChainErrors | SslPolicyErrors.RemoteCertificateNameMismatch);
        tls.EnforcePolicyErrors(SslPolicyErrors.RemoteCertificateNotAvailable);
        tls.ServerName = options.TlsServerName ?? options.First.Host;
        tls.CertificateValidationCallback = options.ValidateServerCertificate;
        tls.Certificate = options.ClientCertificate;
    }
}
