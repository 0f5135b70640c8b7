using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using BatchKit.Benchmarks.EchoServers;
using BatchKit.Benchmarks.Linux;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.EchoLoad;

/// <summary>One connection to an echo: sends records as far as its window allows, and checks and times those that come back.</summary>
internal sealed class EchoClient : IDisposable
{
    private readonly Socket _socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
    private readonly Queue<(long End, long SentAt)> _underWay = new();
    private readonly RecordPattern _pattern;
    private long _sent;
    private long _received;

    public EchoClient(int port, RecordPattern pattern)
    {
        _pattern = pattern;
        _socket.Connect(new IPEndPoint(IPAddress.Loopback, port));
        Descriptor = (int)_socket.SafeHandle.DangerousGetHandle();
    }

    public int Descriptor { get; }

    /// <summary>True while the socket took less than it was given.</summary>
    public bool IsFull { get; private set; }

    /// <summary>Sends records until so many are under way, or the socket is full.</summary>
    /// <param name="maxRecords">At most so many records begin.</param>
    /// <param name="window">So many may be under way.</param>
    public void Send(long maxRecords, int window)
    {
        var room = Math.Max(0, Math.Min(maxRecords, window - ((_sent - _received + Records.Bytes - 1) / Records.Bytes))) * Records.Bytes;

        // What is left of a record of which a part was taken comes first.
        room += (Records.Bytes - (_sent % Records.Bytes)) % Records.Bytes;
        IsFull = false;
        while (room > 0 && !IsFull)
        {
            var bytes = _pattern.From(_sent, room);
            var now = Stopwatch.GetTimestamp();
            var taken = Libc.Send(Descriptor, bytes);
            if (taken > 0)
                _underWay.Enqueue((_sent + taken, now));
            _sent += taken;
            room -= taken;
            IsFull = taken < bytes.Length;
        }
    }

    /// <summary>Reads what came back.</summary>
    /// <returns>How many records are back.</returns>
    public int Receive(Span<byte> buffer, LatencyHistogram latencies)
    {
        var bytes = buffer[..Libc.Receive(Descriptor, buffer)];
        _pattern.Check(bytes, _received);
        var before = _received / Records.Bytes;
        _received += bytes.Length;
        var records = _received / Records.Bytes;
        var now = Stopwatch.GetTimestamp();
        var timed = before;
        while (timed < records)
        {
            var (end, sentAt) = _underWay.Peek();
            var known = Math.Min(records, end / Records.Bytes);
            latencies.Add(now - sentAt, known - timed);
            timed = known;
            if (end > _received)
                break;
            _underWay.Dequeue();
        }

        return (int)(records - before);
    }

    public void Dispose() => _socket.Dispose();
}
