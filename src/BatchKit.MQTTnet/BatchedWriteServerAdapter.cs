using System.Buffers;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using BatchKit.Transports;
using MQTTnet.Adapter;
using MQTTnet.Channel;
using MQTTnet.Diagnostics.Logger;
using MQTTnet.Formatter;
using MQTTnet.Server;

namespace BatchKit.MQTTnet;

/// <summary>
/// Listens for an MQTTnet server in place of the server's own TCP adapter, and writes all pending packets of a client at once:
/// <c>new MqttServerFactory().CreateMqttServer(options, [new BatchedWriteServerAdapter()])</c>. MQTTnet's own adapter writes each packet separately, its header
/// and its payload in two calls.
/// </summary>
/// <remarks>
/// It listens as the server's options specify, including TLS. A client's channel holds about 64 KiB; after that the server's own queue fills as usual. The server
/// counts a message as sent once the channel has it. Other transports, such as ASP.NET Core's, keep their own adapters.
/// </remarks>
public sealed class BatchedWriteServerAdapter : IMqttServerAdapter
{
    private readonly TimeProvider _timeProvider;
    private readonly List<BatchedWriteListener> _listeners = [];

    /// <summary>Creates an adapter; the server starts it.</summary>
    /// <param name="timeProvider">The source of time; the system's clock when null.</param>
    public BatchedWriteServerAdapter(TimeProvider? timeProvider = null) => _timeProvider = timeProvider ?? TimeProvider.System;

    /// <inheritdoc/>
    public Func<IMqttChannelAdapter, Task>? ClientHandler { get; set; }

    /// <inheritdoc/>
    public Task StartAsync(MqttServerOptions options, IMqttNetLogger logger)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(logger);
        if (_listeners.Count > 0)
            throw new InvalidOperationException("The server has already been started.");
        if (options.TlsEndpointOptions is { IsEnabled: true, CertificateProvider: null })
            throw new ArgumentException("The TLS endpoint has no certificate: set one in its options.", nameof(options));
        try
        {
            Listen(options, options.DefaultEndpointOptions, logger);
            Listen(options, options.TlsEndpointOptions, logger);
        }
        catch
        {
            Dispose();
            throw;
        }

        return Task.CompletedTask;
    }

    /// <inheritdoc/>
    public async Task StopAsync()
    {
        var listeners = _listeners.ToArray();
        Dispose();
        foreach (var listener in listeners)
            await listener.Accepting.ConfigureAwait(false);
    }

    /// <summary>Stops listening. The server disconnects the clients.</summary>
    public void Dispose()
    {
        foreach (var listener in _listeners)
            listener.Dispose();
        _listeners.Clear();
    }

    private void Listen(MqttServerOptions options, MqttServerTcpEndpointBaseOptions? endPoint, IMqttNetLogger logger)
    {
        if (endPoint is not { IsEnabled: true })
            return;
        foreach (var address in (IPAddress?[])[endPoint.BoundInterNetworkAddress, endPoint.BoundInterNetworkV6Address])
        {
            if (address is not null && !address.Equals(IPAddress.None))
                _listeners.Add(new BatchedWriteListener(options, endPoint, address, HandleAsync, logger, _timeProvider));
        }
    }

    private Task HandleAsync(IMqttChannelAdapter adapter) => ClientHandler?.Invoke(adapter) ?? Task.CompletedTask;
}

/// <summary>Accepts an MQTTnet server's clients on one address, with TLS if the endpoint has it, and gives each a <see cref="BatchedWriteChannel"/>.</summary>
internal sealed class BatchedWriteListener : IDisposable
{
    // When more bytes are pending, the server's own queue fills, which shows that a client does not read.
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
        // If the system chose the port, the other address uses the same one, as in MQTTnet's own listener.
        endPoint.Port = ((IPEndPoint)_socket.LocalEndPoint!).Port;
        var stopping = _stopping.Token;
        Accepting = CallerContext.RunWithout(() => AcceptAllAsync(stopping));
    }

    /// <summary>Completes after the listener is disposed.</summary>
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
                // The server owns the tasks of its clients and ends them when it stops.
                // The application's code, such as a certificate provider that blocks, must hold up no other client.
                _ = Task.Run(() => ServeAsync(client), CancellationToken.None);
            }
            catch (Exception exception) when (exception is OperationCanceledException or ObjectDisposedException)
            {
                return;
            }
            catch (SocketException exception)
            {
                Report(() => _logger.Error(exception, "Accepting a client failed."));
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
            // The top of a client's task: a failed handshake, or a defect of the server.
            client.Dispose();
            Report(() => _logger.Warning(exception, "A client's connection failed."));
        }
    }

    private static void Report(Action log)
    {
        try
        {
            log();
        }
        catch (Exception)
        {
            // A listener of the server's log threw, and no other log is known here. The listener goes on.
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

/// <summary>A client's connection to the server: a socket's stream, or TLS over it.</summary>
internal sealed class StreamChannel(Stream stream, Socket socket) : IMqttChannel
{
    public X509Certificate2 ClientCertificate { get; } = CertificateOf(stream)!;

    public EndPoint RemoteEndPoint { get; } = socket.RemoteEndPoint!;

    public EndPoint LocalEndPoint { get; } = socket.LocalEndPoint!;

    public bool IsSecureConnection => stream is SslStream;

    public Task ConnectAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task DisconnectAsync(CancellationToken cancellationToken)
    {
        Dispose();
        return Task.CompletedTask;
    }

    // MQTTnet treats a read of zero bytes after a disposal as the end.
    public async Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        try
        {
            return await stream.ReadAsync(buffer.AsMemory(offset, count), cancellationToken).ConfigureAwait(false);
        }
        catch (ObjectDisposedException)
        {
            return 0;
        }
    }

    public async Task WriteAsync(ReadOnlySequence<byte> buffer, bool isEndOfPacket, CancellationToken cancellationToken)
    {
        foreach (var segment in buffer)
            await stream.WriteAsync(segment, cancellationToken).ConfigureAwait(false);
    }

    public void Dispose() => stream.Dispose();

    private static X509Certificate2? CertificateOf(Stream stream) => stream is SslStream { RemoteCertificate: { } certificate }
        ? certificate as X509Certificate2 ?? X509CertificateLoader.LoadCertificate(certificate.Export(X509ContentType.Cert))
        : null;
}
