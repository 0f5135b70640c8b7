using System.Buffers;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using MQTTnet;
using MQTTnet.Channel;
using MQTTnet.Exceptions;

namespace BatchKit.MQTTnet.Writing;

/// <summary>Plain TCP as MQTTnet's own channel has it, but with TCP_QUICKACK after each read, and with the system's buffers where the application asks for none.</summary>
internal sealed class QuickAckTcpChannel(MqttClientTcpOptions options) : IMqttChannel
{
    private const int TcpLevel = 6;
    private const int QuickAcknowledgeOption = 12;

    // MQTTnet's default, too small for a batch to fit in.
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

    // MQTTnet understands a read of nothing, after a disposal, as the end.
    public async Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        try
        {
            var read = await Opened().ReceiveAsync(buffer.AsMemory(offset, count), cancellationToken).ConfigureAwait(false);
            // The kernel forgets it again (tcp(7)).
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
