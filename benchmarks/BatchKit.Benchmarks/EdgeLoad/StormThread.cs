using System.Net;
using System.Net.Sockets;
using BatchKit.Benchmarks.Linux;
using BatchKit.Benchmarks.Sink;

namespace BatchKit.Benchmarks.EdgeLoad;

/// <summary>One thread's clients: it connects them one after another, then reads them all until each is greeted.</summary>
internal sealed class StormThread(int number, SinkProtocol protocol, int port, int count)
{
    private const int PauseMilliseconds = 5;

    // Each thread has an address of its own, so that no address runs out of ports.
    private readonly IPEndPoint _source = new(new IPAddress([127, 0, 0, (byte)(number + 2)]), 0);
    private readonly IPEndPoint _server = new(IPAddress.Loopback, port);
    private readonly Poller _poller = new();
    private readonly StormClient?[] _clients = new StormClient?[count];
    private readonly byte[] _buffer = new byte[4096];

    public void Connect()
    {
        for (var place = 0; place < count; place++)
            Connect(place);
    }

    public void AwaitGreetings()
    {
        var left = _clients.Count(client => !client!.IsGreeted);
        while (left > 0)
        {
            var events = _poller.Wait(-1);
            for (var index = 0; index < events; index++)
            {
                if (_clients[_poller.PlaceOf(index)]!.Read(_buffer))
                    left--;
            }
        }
    }

    /// <summary>Waits until the server ends all connections, connects each client again as soon as its connection has ended, and waits until all are greeted again.</summary>
    public void Reconnect()
    {
        var (left, refused) = (count, new Queue<int>());
        while (left > 0)
        {
            var events = _poller.Wait(refused.Count > 0 ? PauseMilliseconds : -1);
            for (var index = 0; index < events; index++)
            {
                var place = _poller.PlaceOf(index);
                if (!TryRead(place, out var isGreeted))
                    refused.Enqueue(place);
                left -= isGreeted ? 1 : 0;
            }

            for (var tries = refused.Count; tries > 0 && TryConnect(refused.Peek()); tries--)
                refused.Dequeue();
        }
    }

    /// <returns>False when the connection has ended.</returns>
    private bool TryRead(int place, out bool isGreeted)
    {
        isGreeted = false;
        try
        {
            isGreeted = _clients[place] is { } client && client.Read(_buffer);
            return true;
        }
        catch (IOException)
        {
            _clients[place]!.Dispose();
            _clients[place] = null;
            return false;
        }
    }

    private bool TryConnect(int place)
    {
        try
        {
            Connect(place);
            return true;
        }
        catch (Exception failure) when (failure is SocketException or IOException)
        {
            // The server is not there yet.
            return false;
        }
    }

    private void Connect(int place)
    {
        var client = new StormClient(protocol, _source, _server);
        _clients[place] = client;
        _poller.Add(client.Descriptor, place);
    }
}

/// <summary>One client of a storm.</summary>
internal sealed class StormClient : IDisposable
{
    private const byte GreetingMark = (byte)'!';
    private const int ProbeSeconds = 5;

    private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly WebSocketClient? _webSocket;

    public StormClient(SinkProtocol protocol, IPEndPoint source, IPEndPoint server)
    {
        try
        {
            // Its end leaves no port behind that must wait.
            _socket.LingerState = new LingerOption(enable: true, seconds: 0);
            FindDeadServer();
            _socket.Bind(source);
            _socket.Connect(server);
            Descriptor = (int)_socket.SafeHandle.DangerousGetHandle();
            _webSocket = protocol == SinkProtocol.WebSocket ? new WebSocketClient(_socket, isSignalR: false) : null;
        }
        catch
        {
            _socket.Dispose();
            throw;
        }
    }

    public int Descriptor { get; }

    public bool IsGreeted { get; private set; }

    /// <summary>Reads what is there.</summary>
    /// <returns>True when the greeting came with it.</returns>
    public bool Read(Span<byte> buffer)
    {
        var bytes = buffer[..Libc.Receive(Descriptor, buffer)];
        var isGreeting = _webSocket is null ? bytes.Contains(GreetingMark) : _webSocket.Read(bytes) > 0;
        if (!isGreeting || IsGreeted)
            return false;
        IsGreeted = true;
        return true;
    }

    public void Dispose() => _socket.Dispose();

    // A server that dies while a client connects may leave the client with a connection that no one has at the other end. Nothing is sent on it, so only a probe finds out.
    private void FindDeadServer()
    {
        _socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
        _socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime, ProbeSeconds);
        _socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveInterval, ProbeSeconds);
    }
}
