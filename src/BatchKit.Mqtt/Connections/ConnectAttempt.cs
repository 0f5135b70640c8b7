using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Net.WebSockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>One attempt to connect, from the credentials to the CONNACK.</summary>
internal sealed class ConnectAttempt
{
    private readonly BrokerAddress _address;
    private readonly MqttOptions _options;
    private readonly bool _mayBlock;
    private readonly Func<string, CancellationToken, Task<IPAddress[]>> _resolve;
    private readonly ObserverFaults _faults;
    private readonly ServerCertificateCheck _certificateCheck;
    private readonly string _serverName;
    private Socket? _socket;

    /// <param name="address">The broker's address.</param>
    /// <param name="options">The settings.</param>
    /// <param name="mayBlock">True where the connection has a thread of its own, so that its calls may block.</param>
    /// <param name="timeProvider">The source of time.</param>
    /// <param name="faults">Counts what cancellation callbacks of the application throw.</param>
    /// <param name="resolve">Finds the addresses of a host.</param>
    public ConnectAttempt(
        BrokerAddress address, MqttOptions options, bool mayBlock, TimeProvider timeProvider, ObserverFaults faults, Func<string, CancellationToken, Task<IPAddress[]>> resolve)
    {
        _address = address;
        _mayBlock = mayBlock && BlockingStream.IsSupported && address is { UsesTls: false, UsesWebSocket: false };
        _options = options;
        _resolve = resolve;
        _faults = faults;
        _serverName = options.TlsServerName ?? address.Host;
        _certificateCheck = new ServerCertificateCheck(options, _serverName, timeProvider);
    }

    /// <summary>The stage that the attempt has reached.</summary>
    public ConnectStage Stage { get; private set; } = ConnectStage.Credentials;

    /// <summary>What is wrong with the broker's certificate; null while no fault was found.</summary>
    public string? CertificateComplaint => _certificateCheck.Complaint;

    /// <summary>What <see cref="MqttOptions.ValidateServerCertificate"/> threw; null while it threw nothing.</summary>
    public Exception? CertificateFailure => _certificateCheck.Failure;

    /// <summary>Gets the credentials of this attempt.</summary>
    public async Task<MqttCredentials> FindCredentialsAsync(CancellationToken cancellationToken)
    {
        if (_options.CredentialsProvider is not { } provider)
            return new MqttCredentials(_options.UserName, _options.Password is { } password ? Encoding.UTF8.GetBytes(password) : default);
        // A separate token, because callbacks that the provider registers may throw or hang. The time limit cancels on a timer's thread, where an exception ends the process.
        var providersToken = new CancellationTokenSource();
        using var registration = cancellationToken.UnsafeRegister(_ => _ = _faults.CancelAsync(providersToken), state: null);
        try
        {
            return await provider(providersToken.Token).AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            // A cancellation ends the wait first, and the registration may be gone before its own turn comes.
            if (cancellationToken.IsCancellationRequested)
                _ = _faults.CancelAsync(providersToken);
        }
    }

    /// <summary>Finds the addresses of the broker's host; at least one.</summary>
    /// <exception cref="SocketException">There is none.</exception>
    public async Task<IPAddress[]> ResolveAsync(CancellationToken cancellationToken)
    {
        Stage = ConnectStage.Network;
        var addresses = IPAddress.TryParse(_address.Host, out var only) ? [only] : await _resolve(_address.Host, cancellationToken).ConfigureAwait(false);
        return addresses.Length > 0 ? addresses : throw new SocketException((int)SocketError.HostNotFound);
    }

    /// <summary>Opens the stream for MQTT to one of the addresses: TCP, then TLS and WebSocket if the broker's address asks for them.</summary>
    public async Task<BrokerStream> DialAsync(IPAddress address, CancellationToken cancellationToken)
    {
        var endPoint = new IPEndPoint(address, _address.Port);
        try
        {
            if (_address.UsesWebSocket)
                return await DialWebSocketAsync(endPoint, cancellationToken).ConfigureAwait(false);
            var stream = await DialTcpAsync(endPoint, cancellationToken).ConfigureAwait(false);
            if (!_address.UsesTls)
                return new BrokerStream(_socket!, stream);
            Stage = ConnectStage.Tls;
            var tls = new SslStream(stream);
            await tls.AuthenticateAsClientAsync(CreateTlsOptions(), cancellationToken).ConfigureAwait(false);
            return new BrokerStream(_socket!, tls);
        }
        catch
        {
            _socket?.Dispose();
            throw;
        }
    }

    /// <summary>Sends CONNECT and reads the CONNACK; bytes after it stay in the input.</summary>
    public async Task<ConnackPacket> HandshakeAsync(BrokerStream stream, byte[] connect, ReadBuffer input, CancellationToken cancellationToken)
    {
        Stage = ConnectStage.Answer;
        return stream.Blocks
            ? await BlockingStream.RunAsync(_socket!, () => ExchangeAsync(stream, connect, input, CancellationToken.None), cancellationToken).ConfigureAwait(false)
            : await ExchangeAsync(stream, connect, input, cancellationToken).ConfigureAwait(false);
    }

    private async Task<ConnackPacket> ExchangeAsync(BrokerStream stream, byte[] connect, ReadBuffer input, CancellationToken cancellationToken)
    {
        await stream.Stream.WriteAsync(connect, cancellationToken).ConfigureAwait(false);
        ConnackPacket? connack;
        while (!ConnackReader.TryRead(input, _options, out connack))
        {
            var bytes = await stream.Stream.ReadAsync(input.GetMemory(), cancellationToken).ConfigureAwait(false);
            if (bytes == 0)
                throw new EndOfStreamException("The connection was closed.");
            input.Advance(bytes);
        }

        return connack;
    }

    private async ValueTask<NetworkStream> DialTcpAsync(IPEndPoint endPoint, CancellationToken cancellationToken)
    {
        Stage = ConnectStage.Network;
        _socket = CreateSocket(endPoint.AddressFamily);
        if (_mayBlock)
        {
            return await BlockingStream.RunAsync(_socket, () => ConnectAsync(_socket, endPoint), cancellationToken).ConfigureAwait(false);
        }

        await _socket.ConnectAsync(endPoint, cancellationToken).ConfigureAwait(false);
        return new NetworkStream(_socket, ownsSocket: true);
    }

    private static Task<BlockingStream> ConnectAsync(Socket socket, IPEndPoint endPoint)
    {
        socket.Connect(endPoint);
        return Task.FromResult(new BlockingStream(socket));
    }

    // The stream that DialAsync returns owns it.
    private static Socket CreateSocket(AddressFamily family) => new(family, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };

    private SslClientAuthenticationOptions CreateTlsOptions() => new()
    {
        TargetHost = _serverName,
        ClientCertificates = _options.ClientCertificates,
        EnabledSslProtocols = SslProtocols.Tls12 | SslProtocols.Tls13,
        RemoteCertificateValidationCallback = _certificateCheck.Accept,
    };

    private async Task<BrokerStream> DialWebSocketAsync(IPEndPoint endPoint, CancellationToken cancellationToken)
    {
        var webSocket = new ClientWebSocket();
        try
        {
            // MQTT has its own pings.
            webSocket.Options.KeepAliveInterval = TimeSpan.Zero;
            webSocket.Options.AddSubProtocol("mqtt");
            using var invoker = new HttpMessageInvoker(CreateHttpHandler(endPoint));
            await webSocket.ConnectAsync(_address.WebSocketUri, invoker, cancellationToken).ConfigureAwait(false);
            return new BrokerStream(_socket!, WebSocketStream.Create(webSocket, WebSocketMessageType.Binary, ownsWebSocket: false), webSocket);
        }
        catch
        {
            webSocket.Dispose();
            throw;
        }
    }

    private SocketsHttpHandler CreateHttpHandler(IPEndPoint endPoint) => new()
    {
        UseProxy = false,
        UseCookies = false,
        AllowAutoRedirect = false,
        SslOptions = CreateTlsOptions(),
        ConnectCallback = async (_, token) =>
        {
            var stream = await DialTcpAsync(endPoint, token).ConfigureAwait(false);
            Stage = _address.UsesTls ? ConnectStage.Tls : ConnectStage.WebSocket;
            return stream;
        },
    };
}

/// <summary>The stages of an attempt to connect.</summary>
internal enum ConnectStage
{
    Credentials,
    Network,
    Tls,
    WebSocket,
    Answer,
}

/// <summary>Validates a broker's certificate once, and records what is wrong with it, because the exception of the failed handshake does not contain that.</summary>
internal sealed class ServerCertificateCheck(MqttOptions options, string serverName, TimeProvider timeProvider)
{
    /// <summary>What is wrong, as the end of a sentence that begins with "its certificate"; null while no fault was found.</summary>
    public string? Complaint { get; private set; }

    /// <summary>What the application's check threw; null while it threw nothing.</summary>
    public Exception? Failure { get; private set; }

    public bool Accept(object sender, X509Certificate? certificate, X509Chain? chain, SslPolicyErrors errors)
    {
        try
        {
            var isAccepted = options.ValidateServerCertificate is { } validate ? validate(sender, certificate, chain, errors) : errors == SslPolicyErrors.None;
            if (!isAccepted)
                Complaint = FindComplaint(certificate as X509Certificate2, chain, errors);
            return isAccepted;
        }
        catch (Exception exception)
        {
            Failure = exception;
            return false;
        }
    }

    private string FindComplaint(X509Certificate2? certificate, X509Chain? chain, SslPolicyErrors errors)
    {
        if (certificate is null)
            return "is missing";
        var complaints = new List<string>();
        var now = timeProvider.GetUtcNow().UtcDateTime;
        if (now > certificate.NotAfter.ToUniversalTime())
            complaints.Add($"expired at {certificate.NotAfter.ToUniversalTime():u}");
        if (now < certificate.NotBefore.ToUniversalTime())
            complaints.Add($"is not valid before {certificate.NotBefore.ToUniversalTime():u}");
        if (errors.HasFlag(SslPolicyErrors.RemoteCertificateNameMismatch))
            complaints.Add($"is for another name than {serverName} ({nameof(MqttOptions.TlsServerName)})");
        var statuses = chain?.ChainStatus.Aggregate(X509ChainStatusFlags.NoError, static (all, status) => all | status.Status) ?? X509ChainStatusFlags.NoError;
        var untrusted = statuses & (X509ChainStatusFlags.UntrustedRoot | X509ChainStatusFlags.PartialChain);
        if (untrusted != X509ChainStatusFlags.NoError)
            complaints.Add(certificate.Subject == certificate.Issuer ? "is self-signed" : "comes from an issuer that this system does not trust");
        var others = statuses & ~untrusted & ~X509ChainStatusFlags.NotTimeValid;
        if (others != X509ChainStatusFlags.NoError || (complaints.Count == 0 && statuses != X509ChainStatusFlags.NoError))
            complaints.Add($"failed the check of its chain: {statuses}");
        return complaints.Count > 0 ? string.Join(", ", complaints) : $"was refused by {nameof(MqttOptions.ValidateServerCertificate)}";
    }
}

/// <summary>Reads the broker's first packet, which must be a CONNACK, or recognizes another protocol.</summary>
internal static class ConnackReader
{
    // The beginning of a TLS record: an alert of version 3.x.
    private static ReadOnlySpan<byte> TlsAlert => [0x15, 0x03];

    /// <returns>False when more must arrive first.</returns>
    /// <exception cref="MqttConnectException">The broker uses another protocol.</exception>
    /// <exception cref="MqttProtocolException">The packet is malformed.</exception>
    public static bool TryRead(ReadBuffer input, MqttOptions options, [NotNullWhen(true)] out ConnackPacket? connack)
    {
        connack = null;
        if (input.Unread.Length < TlsAlert.Length)
            return false;
        if (input.Unread.StartsWith(TlsAlert))
            throw new MqttConnectException("It speaks TLS on this port: use mqtts:// or wss://.") { IsRefusal = true };
        if (input.Unread.StartsWith("HTTP/"u8))
            throw new MqttConnectException("It speaks HTTP on this port: use ws:// or wss:// if it serves MQTT over WebSocket there.") { IsRefusal = true };
        if (!PacketHeader.TryRead(input.Unread, options.MaxPacketBytes, out var header, out var headerBytes))
            return false;
        if (header.Type == PacketType.Auth)
            throw MqttProtocolException.EnhancedAuthentication();
        if (header.Type != PacketType.Connack)
            throw new MqttProtocolException(MqttReasonCode.ProtocolError, $"The first packet is {header.Type}, not a CONNACK.");
        if (input.Unread.Length - headerBytes < header.BodyBytes)
            return false;
        connack = ConnackPacket.Read(input.Unread.Slice(headerBytes, header.BodyBytes), options.Version);
        input.Consume(headerBytes + header.BodyBytes);
        return true;
    }
}
