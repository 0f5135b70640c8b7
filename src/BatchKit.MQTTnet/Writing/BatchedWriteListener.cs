using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using MQTTnet.Adapter;
using MQTTnet.Diagnostics.Logger;
using MQTTnet.Formatter;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Writing;

/// <summary>Accepts an MQTTnet server's clients on one address, through TLS where the end point has it, and gives each a channel of batched writes.</summary>
internal sealed class BatchedWriteListener : IDisposable
{
    // Beyond that the server's own queue fills, by which it and others see a client that does not read.
    private const int MaxPendingBytes = 64 * 1024;

    private static readonly TimeSpan PauseAfterFailure = TimeSpan.FromMilliseconds(100);

    private readonly MqttServerOptions _options;
    private readonly MqttServerTcpEndpointBaseOptions _endPoint;
    private readonly Func<IMqttChannelAdapter, Task> _handler;
    private readonly MqttNetSourceLogger _logger;
    private readonly IMqttNetLogger _rootLogger;
    private readonly TimeProvider _timeProvider;
    private readonly Socket _socket;
    private readonly CancellationTokenSource _stopping = new();

    public BatchedWriteListener(
        MqttServerOptions options, MqttServerTcpEndpointBaseOptions endPoint, IPAddress address, Func<IMqttChannelAdapter, Task> handler, IMqttNetLogger logger, TimeProvider timeProvider)
    {
        (_options, _endPoint, _handler, _rootLogger, _timeProvider) = (options, endPoint, handler, logger, timeProvider);
        _logger = logger.WithSource(nameof(BatchedWriteListener));
        _socket = Open(endPoint, address);
        // A port that the system chose is the other address's too, as in MQTTnet's own listener.
        endPoint.Port = ((IPEndPoint)_socket.LocalEndPoint!).Port;
        Accepting = AcceptAllAsync(_stopping.Token);
    }

    /// <summary>Ends once it is disposed.</summary>
    public Task Accepting { get; }

    public void Dispose()
    {
        _stopping.Cancel();
        _socket.Dispose();
        _stopping.Dispose();
    }

    private static Socket Open(MqttServerTcpEndpointBaseOptions endPoint, IPAddress address)
    {
        var socket = new Socket(address.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            if (endPoint.ReuseAddress)
                socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.ReuseAddress, optionValue: true);
            socket.Bind(new IPEndPoint(address, endPoint.Port));
            socket.Listen(endPoint.ConnectionBacklog);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    private async Task AcceptAllAsync(CancellationToken cancellationToken)
    {
        while (!cancellationToken.IsCancellationRequested)
        {
            try
            {
                var client = await _socket.AcceptAsync(cancellationToken).ConfigureAwait(false);
                // The server owns its clients' tasks: it ends them when it stops.
                _ = ServeAsync(client);
            }
            catch (Exception exception) when (exception is OperationCanceledException or ObjectDisposedException)
            {
                return;
            }
            catch (SocketException exception)
            {
                _logger.Error(exception, "A client could not be accepted.");
                await Task.Delay(PauseAfterFailure, _timeProvider, CancellationToken.None).ConfigureAwait(false);
            }
        }
    }

    private async Task ServeAsync(Socket client)
    {
        try
        {
            Apply(client);
            var stream = new NetworkStream(client, ownsSocket: true);
            await using (stream.ConfigureAwait(false))
            {
                var secured = _endPoint is MqttServerTlsTcpEndpointOptions tls ? await SecureAsync(stream, tls).ConfigureAwait(false) : null;
                using var inner = new StreamChannel((Stream?)secured ?? stream, client);
                var formatter = new MqttPacketFormatterAdapter(new MqttBufferWriter(_options.WriterBufferSize, _options.WriterBufferSizeMax));
                using var adapter = new MqttChannelAdapter(new BatchedWriteChannel(inner, MaxPendingBytes, _timeProvider), formatter, _rootLogger);
                adapter.AllowPacketFragmentation = _endPoint.AllowPacketFragmentation;
                await _handler(adapter).ConfigureAwait(false);
            }
        }
        catch (Exception exception)
        {
            // The top of a client's task: a handshake that failed, or a defect of the server's.
            _logger.Warning(exception, "A client's connection failed.");
            client.Dispose();
        }
    }

    private void Apply(Socket client)
    {
        client.NoDelay = _endPoint.NoDelay;
        if (_endPoint.LingerState is { } linger)
            client.LingerState = linger;
        if (_endPoint.KeepAlive is { } keepAlive)
            client.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, keepAlive);
        if (_endPoint.TcpKeepAliveInterval is { } interval)
            client.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveInterval, interval);
        if (_endPoint.TcpKeepAliveRetryCount is { } retries)
            client.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveRetryCount, retries);
        if (_endPoint.TcpKeepAliveTime is { } time)
            client.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime, time);
    }

    private async Task<SslStream> SecureAsync(NetworkStream stream, MqttServerTlsTcpEndpointOptions tls)
    {
        using var limit = new CancellationTokenSource(_options.DefaultCommunicationTimeout, _timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(limit.Token, _stopping.Token);
        var secured = new SslStream(stream, leaveInnerStreamOpen: false, tls.RemoteCertificateValidationCallback);
        var authentication = new SslServerAuthenticationOptions
        {
            ServerCertificate = tls.CertificateProvider.GetCertificate(),
            ClientCertificateRequired = tls.ClientCertificateRequired,
            EnabledSslProtocols = tls.SslProtocol,
            CertificateRevocationCheckMode = tls.CheckCertificateRevocation ? X509RevocationMode.Online : X509RevocationMode.NoCheck,
            EncryptionPolicy = EncryptionPolicy.RequireEncryption,
            CipherSuitesPolicy = tls.CipherSuitesPolicy,
        };
        await secured.AuthenticateAsServerAsync(authentication, either.Token).ConfigureAwait(false);
        return secured;
    }
}
