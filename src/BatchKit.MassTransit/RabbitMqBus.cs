using System.Net.Security;
using System.Security.Authentication;
using MassTransit;
using MassTransit.Configuration;
using MassTransit.RabbitMqTransport.Configuration;

namespace BatchKit.MassTransit;

/// <summary>Makes a bus of its own over RabbitMQ.</summary>
internal static class RabbitMqBus
{
    private const int AmqpTlsPort = 5671;

    public static IBusControl Make(MassTransitRabbitMqOptions options, string name, bool declareTopology, ConnectionAge age)
    {
        var messages = RabbitMqBusFactory.CreateMessageTopology();
        var topology = declareTopology ? new RabbitMqTopologyConfiguration(messages) : new GivenTopology(messages);
        var bus = new ReconnectingBusConfiguration(topology, options.ReconnectDelay);
        var configurator = new RabbitMqBusFactoryConfigurator(bus);
        var (host, port) = options.First;
        configurator.Host(host, (ushort)port, options.VirtualHost, options.ConnectionName ?? name, connection =>
        {
            Configure(connection, options);
            // MassTransit calls this before each try to connect.
            connection.OnRefreshConnectionFactory = _ =>
            {
                age.Restart();
                return Task.CompletedTask;
            };
        });
        return configurator.Build(bus);
    }

    private static void Configure(IRabbitMqHostConfigurator connection, MassTransitRabbitMqOptions options)
    {
        connection.Username(options.UserName);
        connection.Password(options.Password);
        connection.Heartbeat(options.Heartbeat);
        connection.RequestedConnectionTimeout(options.ConnectTimeout);
        connection.ContinuationTimeout(options.ConnectTimeout);
        // MassTransit turns TLS on by itself for that port, with its own defaults.
        if (options.UseTls || options.First.Port == AmqpTlsPort)
            connection.UseSsl(tls => Configure(tls, options));
        if (options.Hosts.Count > 1)
        {
            connection.UseCluster(cluster =>
            {
                foreach (var entry in options.Hosts)
                {
                    var (host, port) = options.Split(entry);
                    cluster.Node($"{host}:{port}");
                }
            });
        }
    }

    private static void Configure(IRabbitMqSslConfigurator tls, MassTransitRabbitMqOptions options)
    {
        // MassTransit's own defaults are TLS 1.2 alone, and a certificate of any issuer.
        tls.Protocol = SslProtocols.None;
        tls.EnforcePolicyErrors(SslPolicyErrors.RemoteCertificateChainErrors | SslPolicyErrors.RemoteCertificateNameMismatch);
        tls.EnforcePolicyErrors(SslPolicyErrors.RemoteCertificateNotAvailable);
        tls.ServerName = options.TlsServerName ?? options.First.Host;
        tls.CertificateValidationCallback = options.ValidateServerCertificate;
        tls.Certificate = options.ClientCertificate;
    }
}
