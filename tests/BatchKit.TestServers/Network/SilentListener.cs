using System.Net;
using System.Net.Sockets;

namespace BatchKit.TestServers.Network;

/// <summary>An address that never says anything: it accepts connections, or its queue is full, so that not even a SYN is answered.</summary>
public sealed class SilentListener : IDisposable
{
    private const int MoreThanItsQueueHolds = 8;

    private readonly Socket _listener = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly List<Socket> _queued = [];

    /// <param name="endPoint">Where it listens.</param>
    /// <param name="accepts">True to accept connections; false to answer no SYN.</param>
    public SilentListener(IPEndPoint endPoint, bool accepts)
    {
        _listener.Bind(endPoint);
        // The system accepts a connection before the program does.
        _listener.Listen(accepts ? 512 : 0);
        for (var count = 0; !accepts && count < MoreThanItsQueueHolds; count++)
            Fill();
    }

    /// <summary>Where it listens.</summary>
    public IPEndPoint EndPoint => (IPEndPoint)_listener.LocalEndPoint!;

    /// <summary>Waits for the first connection.</summary>
    public async Task AcceptAsync() => _queued.Add(await _listener.AcceptAsync());

    private void Fill()
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { Blocking = false };
        _queued.Add(socket);
        try
        {
            socket.Connect(_listener.LocalEndPoint!);
        }
        catch (SocketException unfinished) when (unfinished.SocketErrorCode is SocketError.WouldBlock or SocketError.InProgress)
        {
        }
    }

    public void Dispose()
    {
        _listener.Dispose();
        _queued.ForEach(static socket => socket.Dispose());
    }
}
