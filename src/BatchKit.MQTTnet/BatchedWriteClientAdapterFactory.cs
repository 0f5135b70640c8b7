using System.Buffers;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using MQTTnet;
using MQTTnet.Adapter;
using MQTTnet.Channel;
using MQTTnet.Diagnostics.Logger;
using MQTTnet.Exceptions;
using MQTTnet.Formatter;
using MQTTnet.Implementations;

namespace BatchKit.MQTTnet;

/// <summary>
/// Creates MQTTnet clients that write many packets at once: <c>new MqttClientFactory().CreateMqttClient(new BatchedWriteClientAdapterFactory())</c>. MQTTnet's own
/// client writes each packet separately, its header and its payload in two calls.
/// </summary>
/// <remarks>
/// It wraps MQTTnet's own channels, so TLS and WebSocket work as usual. On Linux it opens plain TCP itself, so that the kernel acknowledges each read immediately
/// (TCP_QUICKACK): a broker that uses Nagle's algorithm, as Mosquitto does by default, otherwise delays PUBACKs by up to 40 ms. Over TLS and WebSocket, set
/// <c>set_tcp_nodelay true</c> on Mosquitto. The publishes of one <see cref="MqttClientTransport.SendAsync"/> are written together, up to 256 KiB in one write; other publishes
/// are written with all bytes that are pending at that moment. <b>A publish at QoS 0 completes before its bytes are written</b>: if the connection is lost, the pending bytes
/// are lost with it, as are those in the socket's buffer. At QoS 1 only the speed changes. Thread-safe.
/// </remarks>
public sealed class BatchedWriteClientAdapterFactory : IMqttClientAdapterFactory
{
    // A write waits while more bytes are pending, as it does when a socket's buffer is full.
    private const int MaxPendingBytes = 1024 * 1024;

    private readonly TimeProvider _timeProvider;

    /// <summary>Creates a factory.</summary>
    /// <param name="timeProvider">The source of time; the system's clock when null.</param>
    public BatchedWriteClientAdapterFactory(TimeProvider? timeProvider = null) => _timeProvider = timeProvider ?? TimeProvider.System;

    /// <inheritdoc/>
    public IMqttChannelAdapter CreateClientAdapter(MqttClientOptions options, MqttPacketInspector packetInspector, IMqttNetLogger logger)
    {
        ArgumentNullException.ThrowIfNull(options);
        IMqttChannel channel = options.ChannelOptions switch
        {
            MqttClientTcpOptions tcp when IsPlain(tcp) => new QuickAckTcpChannel(tcp),
            MqttClientTcpOptions => new MqttTcpChannel(options),
            MqttClientWebSocketOptions webSocketOptions => new MqttWebSocketChannel(webSocketOptions),
            _ => throw new NotSupportedException($"No channel is available for {options.ChannelOptions?.GetType().Name ?? "no channel options"}."),
        };
        return CreateAdapter(channel, options, packetInspector, logger);
    }

    // The options may provide another stream, such as a proxy's.
    private static bool IsPlain(MqttClientTcpOptions options) =>
        OperatingSystem.IsLinux() && options.ProtocolType == ProtocolType.Tcp && options.TlsOptions?.UseTls != true && options.StreamProvider is null;

    internal MqttChannelAdapter CreateAdapter(IMqttChannel channel, MqttClientOptions options, MqttPacketInspector packetInspector, IMqttNetLogger logger)
    {
        var formatter = new MqttPacketFormatterAdapter(options.ProtocolVersion, new MqttBufferWriter(options.WriterBufferSize, options.WriterBufferSizeMax));
        return new MqttChannelAdapter(new BatchedWriteChannel(channel, MaxPendingBytes, _timeProvider), formatter, logger)
        {
            AllowPacketFragmentation = options.AllowPacketFragmentation,
            PacketInspector = packetInspector,
        };
    }
}

/// <summary>A plain TCP channel like MQTTnet's own, but with TCP_QUICKACK after each read, and with the operating system's buffer sizes unless the application sets others.</summary>
internal sealed class QuickAckTcpChannel(MqttClientTcpOptions options) : IMqttChannel
{
    private const int TcpLevel = 6;
    private const int QuickAcknowledgeOption = 12;

    // MQTTnet's default, which is too small for a batch.
    private const int StockBufferBytes = 8192;

    private static ReadOnlySpan<byte> On => [1, 0, 0, 0];

    private Socket? _socket;

    public X509Certificate2 ClientCertificate => null!;

    public EndPoint RemoteEndPoint { get; private set; } = options.RemoteEndpoint;

    public EndPoint LocalEndPoint { get; private set; } = options.LocalEndpoint;

    public bool IsSecureConnection => false;

    public async Task ConnectAsync(CancellationToken cancellationToken)
    {
        var socket = _socket = Open();
        try
        {
            await socket.ConnectAsync(options.RemoteEndpoint, cancellationToken).ConfigureAwait(false);
        }
        catch (SocketException exception)
        {
            throw new MqttCommunicationException($"Error while connecting host '{options.RemoteEndpoint}'.", exception);
        }

        (RemoteEndPoint, LocalEndPoint) = (socket.RemoteEndPoint!, socket.LocalEndPoint!);
    }

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
            var read = await Opened().ReceiveAsync(buffer.AsMemory(offset, count), cancellationToken).ConfigureAwait(false);
            // The option is not permanent, so it is set after each read (tcp(7)).
            if (read > 0)
                Opened().SetRawSocketOption(TcpLevel, QuickAcknowledgeOption, On);
            return read;
        }
        catch (ObjectDisposedException)
        {
            return 0;
        }
    }

    public async Task WriteAsync(ReadOnlySequence<byte> buffer, bool isEndOfPacket, CancellationToken cancellationToken)
    {
        foreach (var segment in buffer)
        {
            var rest = segment;
            while (!rest.IsEmpty)
                rest = rest[await Opened().SendAsync(rest, cancellationToken).ConfigureAwait(false)..];
        }
    }

    public void Dispose() => _socket?.Dispose();

    private Socket Opened() => _socket ?? throw new ObjectDisposedException(nameof(QuickAckTcpChannel));

    private Socket Open()
    {
        var socket = options.AddressFamily == AddressFamily.Unspecified
            ? new Socket(SocketType.Stream, ProtocolType.Tcp)
            : new Socket(options.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            if (options.LocalEndpoint is { } local)
                socket.Bind(local);
            if (options.BufferSize != StockBufferBytes)
                (socket.ReceiveBufferSize, socket.SendBufferSize) = (options.BufferSize, options.BufferSize);
            socket.NoDelay = options.NoDelay;
            if (options.LingerState is { } linger)
                socket.LingerState = linger;
            if (options.DualMode is { } dualMode)
                socket.DualMode = dualMode;
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }
}
