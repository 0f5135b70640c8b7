using System.Net;
using System.Net.Sockets;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>A listener that keeps every socket that it accepts.</summary>
internal sealed class AcceptedSockets : IDisposable
{
    private readonly Socket _listener = new(SocketType.Stream, ProtocolType.Tcp);
    private readonly List<Socket> _sockets = [];

    // Guards the list.
    private readonly Lock _lock = new();
    private Thread? _thread;

    public Socket[] Snapshot
    {
        get
        {
            lock (_lock)
                return [.. _sockets];
        }
    }

    public int Count
    {
        get
        {
            lock (_lock)
                return _sockets.Count;
        }
    }

    public int Start()
    {
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen();
        _thread = new Thread(Accept) { IsBackground = true };
        _thread.Start();
        return ((IPEndPoint)_listener.LocalEndPoint!).Port;
    }

    public void Dispose()
    {
        _listener.Dispose();
        _thread?.Join();
        foreach (var socket in Snapshot)
            socket.Dispose();
    }

    private void Accept()
    {
        try
        {
            while (true)
            {
                var socket = _listener.Accept();
                socket.NoDelay = true;
                lock (_lock)
                    _sockets.Add(socket);
            }
        }
        catch (SocketException)
        {
            // The listener is closed.
        }
    }
}
