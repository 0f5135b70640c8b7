using System.Net;
using System.Net.Sockets;
using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>A stream whose calls block must not block those who write to it.</summary>
public sealed class BlockingStreamTests : IDisposable
{
    private readonly BlockingStream _stream;
    private readonly Socket _peer;

    public BlockingStreamTests()
    {
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        socket.Connect(listener.LocalEndPoint!);
        _peer = listener.Accept();
        _stream = new BlockingStream(socket);
    }

    public void Dispose()
    {
        _stream.Dispose();
        _peer.Dispose();
    }

    [Theory]
    [InlineData(1, 1)]
    [InlineData(100, 100)]
    [InlineData(1449, 1449)]
    [InlineData(1, 60_000)]
    [InlineData(60_000, 64 * 1024)]
    public async Task What_may_be_written_now_does_not_block_although_the_peer_reads_nothing(int least, int most)
    {
        var random = new Random(1);
        var written = 0L;

        await Task.Run(() =>
        {
            for (var bytes = random.Next(least, most + 1); _stream.CanWriteNow(bytes); bytes = random.Next(least, most + 1))
            {
                _stream.Write(new byte[bytes]);
                written += bytes;
            }
        }).WithinDeadline();

        Assert.InRange(written, 1, 64 << 20);
        var reading = Task.Run(() => ReadAsync(written));
        await Until.TrueAsync(() => _stream.CanWriteNow(most));
        await reading.WithinDeadline();
    }

    [Fact]
    public void What_does_not_fit_the_kernels_buffer_may_never_be_written_now() => Assert.False(_stream.CanWriteNow(10 << 20));

    [Fact]
    public async Task A_flush_returns_although_the_peer_reads_nothing_and_closing_ends_the_write()
    {
        using var output = new PacketOutput(_stream, new EndlessSource());

        await Task.Run(output.Flush).WithinDeadline();
        var isWriting = !output.CloseAsync([1]).IsCompleted;
        _stream.Dispose();
        await output.CloseAsync().WithinDeadline();

        Assert.True(isWriting);
    }

    [Fact]
    public async Task A_large_packet_leaves_whole_while_the_peer_reads()
    {
        using var output = new PacketOutput(_stream, new OnePacket(5 << 20));

        await Task.Run(output.Flush).WithinDeadline();
        await Task.Run(() => ReadAsync(5 << 20)).WithinDeadline();
        await output.CloseAsync().WithinDeadline();
    }

    private async Task ReadAsync(long bytes)
    {
        var buffer = new byte[64 * 1024];
        while (bytes > 0)
            bytes -= await _peer.ReceiveAsync(buffer);
    }

    private sealed class OnePacket(int bytes) : IPacketSource
    {
        private bool _isFilled;

        public void Fill(PacketBuffer buffer)
        {
            if (!_isFilled && (_isFilled = buffer.TryReserve(bytes, out _)))
                buffer.Advance(bytes);
        }

        public void CompleteWrite()
        {
        }
    }
}
