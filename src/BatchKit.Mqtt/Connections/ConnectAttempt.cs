using System.Net.Security;
using System.Net.Sockets;
using System.Net.WebSockets;
using System.Security.Authentication;
using System.Text;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>One attempt to connect, from the credentials to the CONNACK.</summary>
internal sealed class ConnectAttempt
{
    private readonly BrokerAddress _address;
    private readonly MqttOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly ServerCertificateCheck _certificateCheck;
    private readonly string _serverName;
    private Socket? _socket;

    public ConnectAttempt(BrokerAddress address, MqttOptions options, TimeProvider timeProvider)
    {
        _address = address;
        _options = options;
        _timeProvider = timeProvider;
        _serverName = options.TlsServerName ?? address.Host;
        _certificateCheck = new ServerCertificateCheck(options, _serverName, timeProvider);
    }

    /// <summary>How far it came.</summary>
    public ConnectStage Stage { get; private set; } = ConnectStage.Credentials;

    /// <summary>What was wrong with the broker's certificate; null while nothing was found wrong.</summary>
    public string? CertificateComplaint => _certificateCheck.Complaint;

    /// <summary>Asks for the credentials of this attempt.</summary>
    public async Task<MqttCredentials> FindCredentialsAsync(CancellationToken cancellationToken)
    {
        if (_options.CredentialsProvider is { } provider)
            return await provider(cancellationToken).AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
        return new MqttCredentials(_options.UserName, _options.Password is { } password ? Encoding.UTF8.GetBytes(password) : default);
    }

    /// <summary>Connects down to the stream that MQTT is spoken on.</summary>
    public async Task<BrokerStream> DialAsync(CancellationToken cancellationToken)
    {
        try
        {
            if (_address.UsesWebSocket)
                return await DialWebSocketAsync(cancellationToken).ConfigureAwait(false);
            var stream = await DialTcpAsync(cancellationToken).ConfigureAwait(false);
            if (!_address.UsesTls)
                return new BrokerStream(_socket!, stream);
            Stage = ConnectStage.Tls;
            var tls = new SslStream(stream);
            await tls.AuthenticateAsClientAsync(MakeTlsOptions(), cancellationToken).ConfigureAwait(false);
            return new BrokerStream(_socket!, tls);
        }
        catch
        {
            _socket?.Dispose();
            throw;
        }
    }

    /// <summary>Sends CONNECT and reads the CONNACK; what came behind it stays in the input.</summary>
    public async Task<ConnackPacket> IntroduceAsync(BrokerStream stream, byte[] connect, ReadBuffer input, CancellationToken cancellationToken)
    {
        Stage = ConnectStage.Answer;
        await stream.Stream.WriteAsync(connect, cancellationToken).ConfigureAwait(false);
        ConnackPacket? connack;
        while (!ConnackReader.TryRead(input, _options, out connack))
        {
            var bytes = await stream.Stream.ReadAsync(input.MakeRoom(), cancellationToken).ConfigureAwait(false);
            if (bytes == 0)
                throw new EndOfStreamException("The connection was closed.");
            input.Advance(bytes);
        }

        return connack;
    }

    private async ValueTask<NetworkStream> DialTcpAsync(CancellationToken cancellationToken)
    {
        Stage = ConnectStage.Network;
        _socket = await TcpDialer.ConnectAsync(_address.Host, _address.Port, _options.ConnectTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        return new NetworkStream(_socket, ownsSocket: true);
    }

    private SslClientAuthenticationOptions MakeTlsOptions() => new()
    {
        TargetHost = _serverName,
        ClientCertificates = _options.ClientCertificates,
        EnabledSslProtocols = SslProtocols.Tls12 | SslProtocols.Tls13,
        RemoteCertificateValidationCallback = _certificateCheck.Accept,
    };

    private async Task<BrokerStream> DialWebSocketAsync(CancellationToken cancellationToken)
    {
        var webSocket = new ClientWebSocket();
        try
        {
            // MQTT has pings of its own.
            webSocket.Options.KeepAliveInterval = TimeSpan.Zero;
            webSocket.Options.AddSubProtocol("mqtt");
            using var invoker = new HttpMessageInvoker(MakeHttpHandler());
            await webSocket.ConnectAsync(_address.WebSocketUri, invoker, cancellationToken).ConfigureAwait(false);
            return new BrokerStream(_socket!, WebSocketStream.Create(webSocket, WebSocketMessageType.Binary, ownsWebSocket: false), webSocket);
        }
        catch
        {
            webSocket.Dispose();
            throw;
        }
    }

    private SocketsHttpHandler MakeHttpHandler() => new()
    {
        UseProxy = false,
        UseCookies = false,
        AllowAutoRedirect = false,
        SslOptions = MakeTlsOptions(),
        ConnectCallback = async (_, token) =>
        {
            var stream = await DialTcpAsync(token).ConfigureAwait(false);
            Stage = _address.UsesTls ? ConnectStage.Tls : ConnectStage.WebSocket;
            return stream;
        },
    };
}
