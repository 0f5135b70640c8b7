using System.Net;
using System.Net.Sockets;

namespace BatchKit.Benchmarks.Scopes;

/// <summary>Clients on loopback. One thread reads them all and tells when each has its bytes.</summary>
internal sealed class LoopClients : IDisposable
{
    private const int BufferBytes = 64 * 1024;
    private const int PollMicroseconds = 100_000;

    private static readonly TimeSpan ReadTimeout = TimeSpan.FromSeconds(30);

    private readonly Socket[] _sockets;
    private readonly Dictionary<Socket, int> _received = [];
    private readonly int _bytesPerClient;
    private readonly SemaphoreSlim _allRead = new(0);
    private readonly Thread _reader;
    private volatile bool _isDisposed;

    /// <param name="count">How many.</param>
    /// <param name="port">Where they connect.</param>
    /// <param name="bytesPerClient">How many bytes each client gets in one operation.</param>
    public LoopClients(int count, int port, int bytesPerClient)
    {
        _bytesPerClient = bytesPerClient;
        _sockets = [.. Enumerable.Range(0, count).Select(_ => Connect(port))];
        foreach (var socket in _sockets)
            _received[socket] = 0;
        _reader = new Thread(Read) { IsBackground = true };
        _reader.Start();
    }

    /// <summary>Waits until every client has read its last byte.</summary>
    /// <exception cref="InvalidOperationException">They had not after 30 s: bytes are lost.</exception>
    public void AwaitLastByte()
    {
        if (!_allRead.Wait(ReadTimeout))
            throw new InvalidOperationException("A client did not get all its bytes.");
    }

    public void Dispose()
    {
        _isDisposed = true;
        _reader.Join();
        foreach (var socket in _sockets)
            socket.Dispose();
        _allRead.Dispose();
    }

    private static Socket Connect(int port)
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
        socket.Connect(new IPEndPoint(IPAddress.Loopback, port));
        socket.Blocking = false;
        return socket;
    }

    private void Read()
    {
        var readable = new List<Socket>(_sockets.Length);
        var buffer = new byte[BufferBytes];
        var finished = 0;
        while (!_isDisposed)
        {
            readable.Clear();
            readable.AddRange(_sockets);
            Socket.Select(readable, checkWrite: null, checkError: null, PollMicroseconds);
            foreach (var socket in readable)
                finished += ReadOnce(socket, buffer) ? 1 : 0;
            if (finished < _sockets.Length)
                continue;
            finished = 0;
            _allRead.Release();
        }
    }

    /// <returns>True when the client has all its bytes.</returns>
    private bool ReadOnce(Socket socket, byte[] buffer)
    {
        var received = _received[socket] + socket.Receive(buffer, SocketFlags.None, out _);
        _received[socket] = received == _bytesPerClient ? 0 : received;
        return received == _bytesPerClient;
    }
}
