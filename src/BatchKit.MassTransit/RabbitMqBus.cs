using System.IO;
using System.Net.Security;
using System.Security.Authentication;
using MassTransit;
using MassTransit.Configuration;
using MassTransit.RabbitMqTransport;
using MassTransit.RabbitMqTransport.Configuration;
using MassTransit.Util;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.MassTransit;

/// <summary>Creates a buffer's own bus over RabbitMQ.</summary>
internal static class RabbitMqBus
{
    private const int AmqpTlsPort = 5671;

    public static IBusControl Create(MassTransitRabbitMqOptions options, string name, bool declareTopology, ConnectionAge age, BusSocket socket)
    {
        var messages = RabbitMqBusFactory.CreateMessageTopology();
        var topology = declareTopology ? new RabbitMqTopologyConfiguration(messages) : new GivenTopology(messages);
        var bus = new ReconnectingBusConfiguration(topology, options.ReconnectDelay);
        var configurator = new RabbitMqBusFactoryConfigurator(bus);
        var (host, port) = options.First;
        configurator.Host(host, (ushort)port, options.VirtualHost, options.ConnectionName ?? name, connection =>
        {
            Configure(connection, options);
            // MassTransit calls this before each attempt to connect.
            connection.OnRefreshConnectionFactory = factory =>
            {
                age.Restart();
                socket.Follow(factory);
                return Task.CompletedTask;
            };
        });
        return configurator.Build(bus);
    }

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

/// <summary>MassTransit's RabbitMQ bus configuration with a <see cref="ReconnectingHostConfiguration"/> in place of its own host.</summary>
internal sealed class ReconnectingBusConfiguration : RabbitMqBusConfiguration, IRabbitMqBusConfiguration
{
    private readonly ReconnectingHostConfiguration _host;

    public ReconnectingBusConfiguration(IRabbitMqTopologyConfiguration topologyConfiguration, TimeSpan reconnectDelay)
        : base(topologyConfiguration) =>
        _host = new ReconnectingHostConfiguration(this, topologyConfiguration, reconnectDelay);

    IRabbitMqHostConfiguration IRabbitMqBusConfiguration.HostConfiguration => _host;

    IHostConfiguration IBusConfiguration.HostConfiguration => _host;

    ConnectHandle IEndpointConfigurationObserverConnector.ConnectEndpointConfigurationObserver(IEndpointConfigurationObserver observer) =>
        _host.ConnectEndpointConfigurationObserver(observer);
}

/// <summary>MassTransit's RabbitMQ host with a constant pause between attempts to connect, and with <see cref="AnsweredConnectionSupervisor"/>. MassTransit's own pause grows from 3 to 30 s and has no setting.</summary>
internal sealed class ReconnectingHostConfiguration : RabbitMqHostConfiguration, IRabbitMqHostConfiguration
{
    private readonly Recycle<IConnectionContextSupervisor> _connections;

    public ReconnectingHostConfiguration(IRabbitMqBusConfiguration busConfiguration, IRabbitMqTopologyConfiguration topologyConfiguration, TimeSpan reconnectDelay)
        : base(busConfiguration, topologyConfiguration)
    {
        _connections = new Recycle<IConnectionContextSupervisor>(() => new AnsweredConnectionSupervisor(this, topologyConfiguration));
        ReceiveTransportRetryPolicy = Retry.CreatePolicy(policy =>
        {
            policy.Handle<ConnectionException>();
            policy.Handle<AlreadyClosedException>();
            policy.Handle<EndOfStreamException>();
            policy.Handle<OperationInterruptedException>();
            // The policy keeps an array of pauses; MassTransit starts again when it has used them up.
            policy.Interval(retryCount: 64, reconnectDelay);
        });
    }

    IConnectionContextSupervisor IRabbitMqHostConfiguration.ConnectionContextSupervisor => _connections.Supervisor;

    public override IRetryPolicy ReceiveTransportRetryPolicy { get; }

    // Dispatch retries failed sends after its own pause; MassTransit would wait inside the send.
    public override IRetryPolicy SendTransportRetryPolicy { get; } = Retry.None;
}

/// <summary>Makes a channel that the broker does not open in time a failure that MassTransit retries. The client cancels the request, and MassTransit takes a cancellation for the endpoint's stop: it would never receive again.</summary>
internal sealed class AnsweredConnectionSupervisor(IRabbitMqHostConfiguration host, IRabbitMqTopologyConfiguration topology) : ConnectionContextSupervisor(host, topology), IConnectionContextSupervisor
{
    Task IPipeContextSource<ConnectionContext>.Send(IPipe<ConnectionContext> pipe, CancellationToken cancellationToken) => Send(new AnsweredConnectionPipe(pipe), cancellationToken);

    private sealed class AnsweredConnectionPipe(IPipe<ConnectionContext> pipe) : IPipe<ConnectionContext>
    {
        public Task Send(ConnectionContext context) => pipe.Send(new AnsweredConnection(context));

        public void Probe(ProbeContext context) => pipe.Probe(context);
    }

    private sealed class AnsweredConnection(ConnectionContext connection) : SharedConnectionContext(connection, connection.CancellationToken), ConnectionContext
    {
        async Task<ChannelContext> ConnectionContext.CreateChannelContext(CancellationToken cancellationToken, ushort? concurrentMessageLimit)
        {
            try
            {
                return await CreateChannelContext(cancellationToken, concurrentMessageLimit).ConfigureAwait(false);
            }
            catch (OperationCanceledException exception) when (!cancellationToken.IsCancellationRequested)
            {
                throw new RabbitMqConnectionException($"The broker did not open a channel within {ContinuationTimeout}.", exception);
            }
        }
    }
}

/// <summary>The socket of a buffer's own bus. With it, BatchKit ends a connection that no longer works, for which MassTransit has no method.</summary>
internal sealed class BusSocket
{
    private ConnectionFactory? _factory;
    private volatile ITcpClient? _current;

    /// <summary>Remembers the sockets that the factory opens. MassTransit has one factory, and calls this before each attempt to connect.</summary>
    public void Follow(ConnectionFactory factory)
    {
        if (_factory == factory)
            return;
        _factory = factory;
        var create = factory.SocketFactory;
        factory.SocketFactory = family => _current = create(family);
    }

    /// <summary>Ends the connection. MassTransit then connects again; in a cluster it tries the next broker.</summary>
    public void End() => _current?.Close();
}
