using System.Net;
using System.Security.Authentication;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Connections;

/// <summary>Opens connections as the options specify.</summary>
internal sealed class MqttConnector
{
    private readonly MqttOptions _options;
    private readonly string _clientId;
    private readonly uint _sessionExpiry;
    private readonly uint? _lastSessionExpiry;
    private readonly MqttWill? _will;
    private readonly bool _mayBlock;
    private readonly TimeProvider _timeProvider;
    private readonly ObserverFaults _faults;
    private readonly BrokerAddress _address;
    private readonly ConnectFailures _failures;
    private readonly Func<string, CancellationToken, Task<IPAddress[]>> _resolve;

    /// <param name="options">The settings.</param>
    /// <param name="clientId">The client id.</param>
    /// <param name="sessionExpiry">The session expiry in CONNECT.</param>
    /// <param name="endsSession">True ends the session with the DISCONNECT of a stop, because no later connection resumes it.</param>
    /// <param name="will">The will; null for none.</param>
    /// <param name="timeProvider">The source of time.</param>
    /// <param name="faults">Counts what cancellation callbacks of the application throw.</param>
    /// <param name="mayBlock">True gives a connection over plain TCP a thread of its own.</param>
    /// <param name="resolve">Finds the addresses of a host; the system's way when null.</param>
    public MqttConnector(
        MqttOptions options, string clientId, TimeSpan sessionExpiry, bool endsSession, MqttWill? will, TimeProvider timeProvider, ObserverFaults faults,
        bool mayBlock = false, Func<string, CancellationToken, Task<IPAddress[]>>? resolve = null)
    {
        _options = options;
        _clientId = clientId;
        _sessionExpiry = (uint)Math.Ceiling(sessionExpiry.TotalSeconds);
        _lastSessionExpiry = endsSession && _sessionExpiry > 0 ? 0 : null;
        (_will, _mayBlock) = (will, mayBlock);
        _timeProvider = timeProvider;
        _faults = faults;
        _address = new BrokerAddress(options.Server);
        _failures = new ConnectFailures(_address, options);
        _resolve = resolve ?? Dns.GetHostAddressesAsync;
    }

    /// <summary>A human-readable form of the broker's address, without secrets.</summary>
    public string Target => _address.Target;

    /// <summary>Connects, within <see cref="MqttOptions.ConnectTimeout"/>.</summary>
    /// <exception cref="MqttConnectException">The broker could not be reached, or refused the connection.</exception>
    public async Task<MqttConnection> ConnectAsync(bool cleanStart, CancellationToken cancellationToken)
    {
        // In 3.1.1 one flag discards the session at the start and at the end (section 3.1.2.4). A session that must last therefore needs a second connection.
        if (_options.Version == MqttVersion.V311 && _sessionExpiry > 0 && cleanStart)
        {
            var first = await ConnectOnceAsync(cleanStart: true, will: null, cancellationToken).ConfigureAwait(false);
            await first.EndAsync().ConfigureAwait(false);
            cleanStart = false;
        }

        return await ConnectOnceAsync(cleanStart || (_options.Version == MqttVersion.V311 && _sessionExpiry == 0), _will, cancellationToken).ConfigureAwait(false);
    }

    private async Task<MqttConnection> ConnectOnceAsync(bool cleanStart, MqttWill? will, CancellationToken cancellationToken)
    {
        using var limit = new CancellationTokenSource(_options.ConnectTimeout, _timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(limit.Token, cancellationToken);
        var ending = either.Token;
        var attempt = new ConnectAttempt(_address, _options, _mayBlock, _timeProvider, _faults, _resolve);
        // Not on this thread, and not waited for beyond the limit: the application's callbacks, for credentials and for certificates, may block.
        var connecting = CallerContext.RunWithout(() => ConnectAsync(attempt, cleanStart, will, ending));
        try
        {
            return await connecting.WaitAsync(ending).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            _ = EndLateAsync(connecting);
            // A cancelled attempt may fail for another reason at the same moment; the caller must see the cancellation.
            cancellationToken.ThrowIfCancellationRequested();
            throw _failures.Explain(exception, attempt, limit.IsCancellationRequested);
        }
    }

    private static async Task EndLateAsync(Task<MqttConnection> connecting)
    {
        await ((Task)connecting).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (connecting.IsCompletedSuccessfully)
            await (await connecting.ConfigureAwait(false)).DisposeAsync().ConfigureAwait(false);
    }

    private async Task<MqttConnection> ConnectAsync(ConnectAttempt attempt, bool cleanStart, MqttWill? will, CancellationToken cancellationToken)
    {
        var credentials = await attempt.FindCredentialsAsync(cancellationToken).ConfigureAwait(false);
        var connect = ConnectPacket.Write(Describe(credentials, cleanStart, will));
        try
        {
            return await ConnectToAnyAsync(attempt, connect, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            // The packet contains the password.
            Array.Clear(connect);
        }
    }

    // The time limit is divided among the addresses, so that one that does not answer, or accepts and says nothing, leaves time for the next.
    private async Task<MqttConnection> ConnectToAnyAsync(ConnectAttempt attempt, byte[] connect, CancellationToken cancellationToken)
    {
        var addresses = await attempt.ResolveAsync(cancellationToken).ConfigureAwait(false);
        for (var index = 0; ; index++)
        {
            var isLast = index == addresses.Length - 1;
            using var share = new CancellationTokenSource(isLast ? Timeout.InfiniteTimeSpan : _options.ConnectTimeout / addresses.Length, _timeProvider);
            using var either = CancellationTokenSource.CreateLinkedTokenSource(share.Token, cancellationToken);
            try
            {
                return await ConnectAsync(attempt, addresses[index], connect, either.Token).ConfigureAwait(false);
            }
            catch (Exception exception) when (!isLast && !IsAnswer(exception))
            {
                // The next address may answer.
                cancellationToken.ThrowIfCancellationRequested();
            }
        }
    }

    // The same broker would say the same at another address.
    private static bool IsAnswer(Exception exception) =>
        FailureText.CausesOf(exception).Any(static cause => cause is MqttConnectException or MqttProtocolException or AuthenticationException);

    private async Task<MqttConnection> ConnectAsync(ConnectAttempt attempt, IPAddress address, byte[] connect, CancellationToken cancellationToken)
    {
        var stream = await attempt.DialAsync(address, cancellationToken).ConfigureAwait(false);
        var input = new ReadBuffer();
        try
        {
            var connack = await attempt.HandshakeAsync(stream, connect, input, cancellationToken).ConfigureAwait(false);
            if (connack.ReasonCode >= MqttReasonCode.UnspecifiedError)
                throw _failures.Refuse(connack);
            return new MqttConnection(stream, input, connack, _options, Target, _lastSessionExpiry, _timeProvider);
        }
        catch
        {
            stream.Dispose();
            input.Dispose();
            throw;
        }
    }

    private ConnectFields Describe(MqttCredentials credentials, bool cleanStart, MqttWill? will) => new()
    {
        Version = _options.Version,
        ClientId = _clientId,
        Credentials = credentials,
        CleanStart = cleanStart,
        KeepAlive = (ushort)Math.Ceiling(_options.KeepAlive.TotalSeconds),
        SessionExpiry = _sessionExpiry,
        ReceiveMaximum = (ushort)_options.ReceiveMaximum,
        MaxPacketBytes = (uint)_options.MaxPacketBytes,
        TopicAliasMaximum = 0,
        Will = will,
    };
}

/// <summary>The address of a broker, and the protocols below MQTT.</summary>
internal sealed class BrokerAddress
{
    private const int MqttPort = 1883;
    private const int MqttTlsPort = 8883;

    public BrokerAddress(Uri server)
    {
        UsesTls = server.Scheme is "mqtts" or "wss";
        UsesWebSocket = server.Scheme is "ws" or "wss";
        Host = server.IdnHost.Trim('[', ']');
        Port = server.Port > 0 ? server.Port : UsesTls ? MqttTlsPort : MqttPort;
        // Built from these parts only, so that nothing else in the address reaches a log.
        var shownHost = Host.Contains(':', StringComparison.Ordinal) ? $"[{Host}]" : Host;
        Target = $"{server.Scheme}://{shownHost}:{Port}";
        WebSocketUri = new UriBuilder(UsesTls ? "wss" : "ws", Host, Port, server.AbsolutePath, server.Query).Uri;
    }

    public bool UsesTls { get; }

    public bool UsesWebSocket { get; }

    public string Host { get; }

    public int Port { get; }

    /// <summary>A human-readable form, without secrets.</summary>
    public string Target { get; }

    public Uri WebSocketUri { get; }
}
