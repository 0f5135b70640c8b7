using System.Buffers.Binary;
using System.Net.Sockets;
using BatchKit.Benchmarks.Linux;
using BatchKit.Benchmarks.Publishers;

namespace BatchKit.Benchmarks.RawMqtt;

/// <summary>An MQTT 5 connection as bare as it gets: a blocking socket.</summary>
internal sealed class RawConnection : IDisposable
{
    /// <summary>How long a server may be silent before it has answered.</summary>
    internal const int HandshakeMilliseconds = 10_000;

    private const byte ServerKeepAliveProperty = 0x13;
    private const byte ReceiveMaximumProperty = 0x21;
    private const byte TopicAliasMaximumProperty = 0x22;

    private readonly TlsRelay? _relay;
    private readonly Socket _socket;

    /// <exception cref="IOException">The broker refused the connection.</exception>
    public RawConnection(int port)
    {
        if (PublishTarget.IsSecure)
            _relay = new TlsRelay(PublishTarget.Host, port);
        _socket = _relay?.Socket ?? Connect(port);
        _socket.ReceiveTimeout = HandshakeMilliseconds;
        Descriptor = (int)_socket.SafeHandle.DangerousGetHandle();
        Write(RawPackets.Connect($"raw-{Guid.NewGuid():N}", PublishTarget.UserName, PublishTarget.Password));
        ReadConnack(ReadPacket());
        _socket.ReceiveTimeout = 0;
    }

    public int Descriptor { get; }

    /// <summary>How many QoS 1 messages may be unacknowledged, by the broker.</summary>
    public int ReceiveMaximum { get; private set; } = ushort.MaxValue;

    /// <summary>Subscribes, and waits for the broker's word.</summary>
    public void Subscribe(string filter, int quality)
    {
        Write(RawPackets.Subscribe(filter, quality));
        if (ReadPacket()[^1] is var granted && granted != quality)
            throw new IOException($"The broker granted the subscription to {filter} with 0x{granted:X2}.");
    }

    public void Write(ReadOnlySpan<byte> bytes)
    {
        while (!bytes.IsEmpty)
            bytes = bytes[_socket.Send(bytes)..];
    }

    /// <summary>Waits for bytes, and has the kernel acknowledge them at once: a broker with Nagle's algorithm holds the next ones back until then.</summary>
    public int Read(Span<byte> buffer)
    {
        var received = _socket.Receive(buffer);
        if (received == 0)
            throw new IOException("The broker closed the connection.");
        Libc.AcknowledgeAtOnce(Descriptor);
        return received;
    }

    public void Dispose()
    {
        _socket.Dispose();
        _relay?.Dispose();
    }

    private static Socket Connect(int port)
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        socket.Connect(PublishTarget.Host, port);
        return socket;
    }

    private byte[] ReadPacket()
    {
        var buffer = new byte[1024];
        for (var length = 0; ;)
        {
            length += Read(buffer.AsSpan(length));
            if (RawPackets.Measure(buffer.AsSpan(0, length), out _) is > 0 and var whole)
                return buffer[..whole];
        }
    }

    private void ReadConnack(ReadOnlySpan<byte> packet)
    {
        _ = RawPackets.Measure(packet, out var position);
        if (packet[position + 1] is 0x86 or 0x87)
            throw new IOException("It refused the user name and the password: name others, as in mqtt://user:password@host.");
        if (packet[position + 1] != 0)
            throw new IOException($"The broker refused the connection with 0x{packet[position + 1]:X2}.");
        position += 2;
        if (!RawPackets.TryReadNumber(packet, ref position, out var bytes))
            throw new IOException("The broker's CONNACK is malformed.");
        var properties = packet.Slice(position, bytes);

        // Brokers put these three, of two bytes each, first or alone; what follows another property is not looked for. Mosquitto answers a keep-alive of zero with its own.
        while (properties is [ServerKeepAliveProperty or ReceiveMaximumProperty or TopicAliasMaximumProperty, _, _, ..])
        {
            if (properties[0] == ReceiveMaximumProperty)
                ReceiveMaximum = BinaryPrimitives.ReadUInt16BigEndian(properties[1..]);
            properties = properties[3..];
        }
    }
}
