using System.Net;
using System.Net.Sockets;
using BatchKit.Benchmarks.FanoutServers;

namespace BatchKit.Benchmarks.IdleServers;

/// <summary>Accepted sockets, each with a receive that waits without a buffer.</summary>
internal sealed class SilentSockets : IFanoutServer
{
    private readonly Socket _listener = new(SocketType.Stream, ProtocolType.Tcp);
    private readonly List<Socket> _sockets = [];

    // Guards the list.
    private readonly Lock _lock = new();

    public int Clients
    {
        get
        {
            lock (_lock)
                return _sockets.Count;
        }
    }

    public Task<int> StartAsync()
    {
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen();
        new Thread(Accept) { IsBackground = true }.Start();
        return Task.FromResult(((IPEndPoint)_listener.LocalEndPoint!).Port);
    }

    public void Send(FanoutWorkload workload)
    {
        lock (_lock)
        {
            foreach (var socket in _sockets)
                socket.Send(Payload.Encoded);
        }
    }

    public ValueTask DisposeAsync()
    {
        _listener.Dispose();
        return default;
    }

    private void Accept()
    {
        try
        {
            while (true)
            {
                var socket = _listener.Accept();
                lock (_lock)
                    _sockets.Add(socket);
                _ = ReceiveAsync(socket);
            }
        }
        catch (SocketException)
        {
            // The listener is closed.
        }
    }

    private async Task ReceiveAsync(Socket socket)
    {
        try
        {
            await socket.ReceiveAsync(Memory<byte>.Empty, SocketFlags.None);
        }
        catch (SocketException)
        {
            // The client is gone.
        }

        lock (_lock)
            _sockets.Remove(socket);
        socket.Dispose();
    }
}
