using System.Net;
using System.Net.Sockets;
using BatchKit.Benchmarks.Linux;

namespace BatchKit.Benchmarks.Sink;

/// <summary>One client: reads all that comes, counts the bytes of messages, and answers what its protocol asks for.</summary>
internal sealed class SinkClient : IDisposable
{
    private readonly Socket _socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
    private readonly WebSocketClient? _webSocket;
    private readonly int _descriptor;

    public SinkClient(SinkProtocol protocol, int port)
    {
        _socket.Connect(new IPEndPoint(IPAddress.Loopback, port));
        _descriptor = (int)_socket.SafeHandle.DangerousGetHandle();
        if (protocol != SinkProtocol.Tcp)
            _webSocket = new WebSocketClient(_socket, isSignalR: protocol == SinkProtocol.SignalR);
    }

    public int Descriptor => _descriptor;

    /// <summary>False until the protocol's start is over.</summary>
    public bool IsReady => _webSocket?.IsReady ?? true;

    /// <summary>How many bytes of messages came since it was last set.</summary>
    public long Received { get; set; }

    /// <summary>Reads what is there, at most a buffer full.</summary>
    public ReadOnlySpan<byte> Read(Span<byte> buffer)
    {
        var bytes = buffer[..Libc.Receive(_descriptor, buffer)];
        Received += _webSocket?.Read(bytes) ?? bytes.Length;
        return bytes;
    }

    public void Dispose() => _socket.Dispose();
}
