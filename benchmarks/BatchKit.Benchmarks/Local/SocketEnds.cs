using System.Net;
using System.Net.Sockets;
using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.Local;

/// <summary>A connected loopback socket: this node's end of a player's connection, and the player's, who reads on a thread of its own.</summary>
internal sealed class SocketEnds : IDisposable
{
    private readonly Socket _server;
    private readonly Socket _client;
    private readonly Thread _reader;
    private int _lists;
    private int _expectedLists;
    private volatile bool _isBroken;

    public SocketEnds()
    {
        using var listener = new Socket(SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        _client = new Socket(SocketType.Stream, ProtocolType.Tcp);
        _client.Connect(listener.LocalEndPoint!);
        _server = listener.Accept();
        _server.NoDelay = true;
        _reader = new Thread(Read) { IsBackground = true };
        _reader.Start();
    }

    public void Send(ReadOnlySpan<byte> bytes)
    {
        while (!bytes.IsEmpty)
            bytes = bytes[_server.Send(bytes)..];
    }

    /// <summary>Waits until the other end has read one more list, the end mark last.</summary>
    /// <remarks>It spins, so that the time until this thread wakes up is not part of a figure.</remarks>
    public void AwaitList()
    {
        _expectedLists++;
        var spin = default(SpinWait);
        while (Volatile.Read(ref _lists) != _expectedLists && !_isBroken)
            spin.SpinOnce(sleep1Threshold: -1);
        if (_isBroken)
            throw new InvalidOperationException("The end mark is not a list's last byte: the order is broken.");
    }

    public void Dispose()
    {
        _server.Dispose();
        _reader.Join();
        _client.Dispose();
    }

    private void Read()
    {
        var buffer = new byte[64 * 1024];
        var count = 0;
        while (_client.Receive(buffer, count, buffer.Length - count, SocketFlags.None) is > 0 and var received)
        {
            count += received;
            if (count < Lines.TotalBytes)
                continue;
            _isBroken |= count > Lines.TotalBytes || buffer[count - 1] != Lines.EndMark;
            count = 0;
            Volatile.Write(ref _lists, _lists + 1);
        }
    }
}
