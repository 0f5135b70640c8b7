using System.Net;
using System.Net.Sockets;
using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.Local;

/// <summary>A connected loopback socket: this node's end of a player's connection, and the player's.</summary>
/// <remarks>One thread writes and then reads, so that a figure has no waking of threads in it. A list fits into the sockets' buffers.</remarks>
internal sealed class SocketEnds : IDisposable
{
    private readonly Socket _server;
    private readonly Socket _client;
    private readonly byte[] _received = new byte[64 * 1024];

    public SocketEnds()
    {
        using var listener = new Socket(SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        _client = new Socket(SocketType.Stream, ProtocolType.Tcp);
        _client.Connect(listener.LocalEndPoint!);
        _server = listener.Accept();
        _server.NoDelay = true;
    }

    public void Send(ReadOnlySpan<byte> bytes)
    {
        while (!bytes.IsEmpty)
            bytes = bytes[_server.Send(bytes)..];
    }

    /// <summary>Reads at the other end until the end mark, and refuses to go on when it is not the list's last byte.</summary>
    public void ReceiveList()
    {
        var count = 0;
        var last = (byte)0;
        while (count < Lines.TotalBytes)
        {
            var received = _client.Receive(_received);
            count += received;
            last = _received[received - 1];
        }

        if (count != Lines.TotalBytes || last != Lines.EndMark)
            throw new InvalidOperationException("The end mark is not the last byte: the order is broken.");
    }

    public void Dispose()
    {
        _client.Dispose();
        _server.Dispose();
    }
}
