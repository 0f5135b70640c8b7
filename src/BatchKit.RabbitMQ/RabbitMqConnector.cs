using System.Net;
using System.Runtime.CompilerServices;
using System.Security.Authentication;
using BatchKit.Diagnostics;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Opens connections as the options specify, and explains in a sentence why one could not be opened.</summary>
internal sealed class RabbitMqConnector
{
    private readonly RabbitMqOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly ConnectionFactory _factory;
    private readonly string _name;
    private readonly AmqpTcpEndpoint[] _endpoints;
    private readonly Func<string, CancellationToken, Task<IPAddress[]>> _resolve;

    // Null unless the connection is the application's.
    private readonly ConnectionRecovery? _recovery;

    public RabbitMqConnector(RabbitMqOptions options, string purpose, TimeProvider timeProvider, Func<string, CancellationToken, Task<IPAddress[]>>? resolve = null)
    {
        _options = options;
        _timeProvider = timeProvider;
        _resolve = resolve ?? Dns.GetHostAddressesAsync;
        _name = $"BatchKit {options.Prefix} {purpose}";
        Purpose = purpose;
        if (options.Connection is { } given)
        {
            _recovery = ConnectionRecovery.Of(given);
            // The broker tells of its alarm when it begins, and the application may publish before BatchKit does.
            _ = RabbitMqAlarm.Of(given);
        }

        var endpoints = options.Hosts.Select(host => RabbitMqEndpoint.TryParse(host, out var endpoint) ? endpoint.WithPort(options.UseTls) : default).ToArray();
        Target = options.Connection is { } connection ? $"RabbitMQ at {connection.Endpoint.HostName}:{connection.Endpoint.Port}"
            : options.ConnectionFactory is { } factory ? $"RabbitMQ of the application's connection factory (virtual host {factory.VirtualHost})"
            : $"RabbitMQ at {string.Join(", ", endpoints)} (virtual host {options.VirtualHost})";
        _endpoints = Array.ConvertAll(endpoints, endpoint => new AmqpTcpEndpoint(endpoint.Host, endpoint.Port, CreateTls(endpoint), RabbitMqResolver.MaxBodyBytes));
        _factory = new ConnectionFactory
        {
            UserName = options.UserName,
            Password = options.Password,
            VirtualHost = options.VirtualHost,
            AutomaticRecoveryEnabled = false,
            TopologyRecoveryEnabled = false,
            RequestedHeartbeat = options.Heartbeat,
            ContinuationTimeout = options.ConnectTimeout,
            MaxInboundMessageBodySize = RabbitMqResolver.MaxBodyBytes,
            ClientProvidedName = _name,
            ConsumerDispatchConcurrency = 1,
        };
    }

    /// <summary>The user of the connections: sender or receiver.</summary>
    public string Purpose { get; }

    /// <summary>The broker's name, without user name and password.</summary>
    public string Target { get; }

    /// <summary>True when BatchKit must close the connections; false for the application's connection.</summary>
    public bool OwnsConnections => _options.Connection is null;

    public Task<IConnection> ConnectAsync(CancellationToken cancellationToken) =>
        _recovery is not null ? _recovery.JoinAsync(_timeProvider, cancellationToken)
        : _options.ConnectionFactory is { } factory ? factory.CreateConnectionAsync(_name, cancellationToken)
        : RabbitMqResolver.ConnectAsync(_factory, _endpoints, _resolve, _name, _options.ConnectTimeout, cancellationToken);

    /// <summary>Explains in a human-readable sentence why a connection could not be opened.</summary>
    public IOException Explain(Exception exception, bool timedOut)
    {
        var cause = FindCause(exception);
        // The limit of the last address ends at the same moment as that of all: two texts would take turns, and each turn be logged.
        if (timedOut || cause is TimeoutException)
            return new IOException($"{Target} did not answer within {_options.ConnectTimeout} ({nameof(RabbitMqOptions.ConnectTimeout)}). Check the address and the firewall, or raise the time.", exception);
        var text = cause switch
        {
            NodeTakenException or RabbitMqAlarmException => FailureText.MessageOf(cause),
            AuthenticationFailureException => $"{Target} refused the login of user '{_options.ConnectionFactory?.UserName ?? _options.UserName}': check UserName and Password.",
            AuthenticationException => $"{Target} could not be trusted: {FailureText.MessageOf(cause)} Check that the port is the broker's for TLS, and its certificate; ValidateServerCertificate decides about certificates of your own.",
            OperationInterruptedException { ShutdownReason: { } reason } => $"{Target} refused: {reason.ReplyText.TrimEnd('.')}. Check VirtualHost, the user's permissions, and what exists under Prefix with other arguments: delete that, or set the options to match it.",
            _ => $"{Target} can't be reached: {FailureText.MessageOf(cause).TrimEnd('.')}. Start the broker, or set Hosts to its address.",
        };
        return new IOException(text, exception);
    }

    // The client wraps the cause in several exceptions.
    private static Exception FindCause(Exception exception) => FailureText.CausesOf(exception).FirstOrDefault(static cause => cause
        is NodeTakenException or RabbitMqAlarmException or TimeoutException or AuthenticationFailureException or AuthenticationException or OperationInterruptedException { ShutdownReason: not null })
        ?? FailureText.CauseOf(exception);

    private SslOption CreateTls(RabbitMqEndpoint endpoint) => new()
    {
        Enabled = _options.UseTls,
        ServerName = _options.TlsServerName ?? endpoint.Host,
        CertificateValidationCallback = _options.ValidateServerCertificate,
        Certs = _options.ClientCertificates,
    };
}

/// <summary>Tracks the recovery of the application's connection, where it recovers itself. Thread-safe.</summary>
/// <remarks>The client recovers a channel too that was created while it recovers the others. The broker then has two channels, and no one knows the first one any more (version 7.2.2).</remarks>
internal sealed class ConnectionRecovery
{
    // The connection keeps its tracker.
    private static readonly ConditionalWeakTable<IConnection, ConnectionRecovery> All = [];

    // The client tells its handlers one after the other, and the application's may wait for output.
    private static readonly TimeSpan TellingLimit = TimeSpan.FromSeconds(1);

    private readonly IConnection _connection;

    // Set from the connection's end until it has recovered.
    private TaskCompletionSource? _recovered;

    private ConnectionRecovery(IConnection connection)
    {
        _connection = connection;
        connection.ConnectionShutdownAsync += OnShutdownAsync;
        connection.RecoverySucceededAsync += OnRecoveredAsync;
    }

    public static ConnectionRecovery Of(IConnection connection) => All.GetValue(connection, static connection => new ConnectionRecovery(connection));

    /// <summary>Returns the connection when channels may be created.</summary>
    /// <exception cref="IOException">It is closed, or the broker has an alarm: it would open the channel when that is over, after everyone has given it up.</exception>
    public async Task<IConnection> JoinAsync(TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        if (!_connection.IsOpen)
            throw new IOException("The application's connection is closed.");
        if (Volatile.Read(ref _recovered) is { } recovered)
            await recovered.Task.WaitAsync(TellingLimit, timeProvider, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        cancellationToken.ThrowIfCancellationRequested();
        RabbitMqAlarm.Of(_connection).ThrowIfRaised();
        return _connection;
    }

    private Task OnShutdownAsync(object sender, ShutdownEventArgs reason)
    {
        Interlocked.CompareExchange(ref _recovered, new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), null);
        return Task.CompletedTask;
    }

    private Task OnRecoveredAsync(object sender, AsyncEventArgs recovered)
    {
        Interlocked.Exchange(ref _recovered, null)?.TrySetResult();
        return Task.CompletedTask;
    }
}
