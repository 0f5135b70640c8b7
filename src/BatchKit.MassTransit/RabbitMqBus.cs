using System.Net;
using BatchKit.RabbitMQ;
using MassTransit;
using RabbitMQ.Client;

namespace BatchKit.MassTransit;

/// <summary>Creates a buffer's own bus over RabbitMQ.</summary>
internal static class RabbitMqBus
{
    private const int AmqpTlsPort = 5671;

    /// <param name="options">The settings.</param>
    /// <param name="name">The name that the broker shows for its connection.</param>
    /// <param name="link">Decides when it connects, and to which address: MassTransit knows one host here, whatever the settings name.</param>
    public static IBusControl Create(MassTransitRabbitMqOptions options, string name, BusLink link) => Bus.Factory.CreateUsingRabbitMq(bus =>
    {
        var (host, port) = options.First;
        bus.Host(host, (ushort)port, options.VirtualHost, name, connection =>
        {
            connection.Username(options.UserName);
            connection.Password(options.Password);
            connection.Heartbeat(options.Heartbeat);
            connection.RequestedConnectionTimeout(options.ConnectTimeout);
            connection.ContinuationTimeout(options.ConnectTimeout);
            // MassTransit calls this before each attempt to connect.
            connection.OnRefreshConnectionFactory = link.PrepareAsync;
        });
    });

    /// <summary>Opens a connection with the settings of the bus, to any address of any host.</summary>
    public static Task<IConnection> ConnectAsync(
        MassTransitRabbitMqOptions options, string name, CancellationToken cancellationToken, Func<string, CancellationToken, Task<IPAddress[]>>? resolve = null)
    {
        var hosts = (options.Hosts.Count == 0 ? [options.First] : options.Hosts.Select(options.Split)).Select(host => CreateEndpoint(options, host.Host, host.Port));
        var factory = new ConnectionFactory
        {
            UserName = options.UserName,
            Password = options.Password,
            VirtualHost = options.VirtualHost,
            AutomaticRecoveryEnabled = false,
            RequestedHeartbeat = options.Heartbeat,
            ContinuationTimeout = options.ConnectTimeout,
        };
        return RabbitMqResolver.ConnectAsync(factory, hosts, resolve ?? Dns.GetHostAddressesAsync, name, options.ConnectTimeout, cancellationToken);
    }

    private static AmqpTcpEndpoint CreateEndpoint(MassTransitRabbitMqOptions options, string host, int port)
    {
        var tls = new SslOption
        {
            Enabled = options.UseTls || options.First.Port == AmqpTlsPort,
            ServerName = options.TlsServerName ?? host,
            CertificateValidationCallback = options.ValidateServerCertificate,
            Certs = options.ClientCertificate is { } certificate ? [certificate] : null,
        };
        return new AmqpTcpEndpoint(host, port, tls, RabbitMqResolver.MaxBodyBytes);
    }
}
