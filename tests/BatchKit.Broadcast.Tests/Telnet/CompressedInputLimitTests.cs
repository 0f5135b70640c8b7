using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Connections;
using BatchKit.Broadcast.Tests.Receiving;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using Microsoft.Extensions.Logging.Abstractions;
using static BatchKit.Broadcast.Tests.Telnet.TelnetScene;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class CompressedInputLimitTests
{
    private const int LineBytes = 1000;

    // What one read may inflate at once: 64 KiB, and the chunk that passes it.
    private const int MaxReadBytes = (64 + 4) * 1024;

    // 10 MB of lines in some 20 KB, all in one read.
    private static readonly byte[] Bomb =
        [.. Bytes("FF FD 57 FF FA 57 FF F0"), .. Compress(Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat(new string('x', LineBytes - 1) + "\n", 10_000))))];

    private readonly ManualTimeProvider _clock = new();
    private readonly RecordCollector _collector = new();

    [Fact]
    public void One_read_inflates_so_much_at_once_and_holds_no_more()
    {
        var (_, reader) = Connect(new BroadcastOptions());
        var (rest, records, read) = (Bomb.AsMemory(), new List<ReceivedRecord>(), 0);
        do
        {
            records.Clear();
            Assert.True(reader.TryRead(rest, records, out var consumed));
            Assert.InRange(records.Count, 1, MaxReadBytes / LineBytes);
            Assert.InRange(reader.AddedBytes, 0, MaxReadBytes);
            rest = rest[consumed..];
            read += records.Count;
        }
        while (reader.HasMore);

        Assert.Equal((10_000, 0), (read, rest.Length));
    }

    [Fact]
    public async Task Limits_of_input_count_what_was_inflated_and_a_close_ends_the_wait()
    {
        var limits = new InputLimits { ByteBurst = 100_000, RecordsPerSecond = 1_000_000, RecordBurst = 1_000_000 };
        var (client, reading) = Start(new BroadcastOptions { TextInputLimits = limits });
        Assert.InRange(_collector.Count * LineBytes, limits.ByteBurst - MaxReadBytes, limits.ByteBurst + MaxReadBytes);
        Assert.False(reading.IsCompleted);

        var before = _collector.Count;
        _clock.Advance(TimeSpan.FromSeconds(2));
        await Until.TrueAsync(() => _collector.Count > before);
        client.Close();

        Assert.Equal(InboundEnd.Finished, await reading.WithinDeadline());
        Assert.InRange((_collector.Count - before) * LineBytes, 1, (2 * limits.BytesPerSecond) + MaxReadBytes);
    }

    [Fact]
    public async Task Who_is_not_authenticated_sends_no_more_than_allowed_when_it_is_inflated()
    {
        var (client, reading) = Start(new BroadcastOptions { MaxUnauthenticatedBytes = 100_000, TextInputLimits = null });

        Assert.Equal(InboundEnd.Finished, await reading.WithinDeadline());
        Assert.Equal(DisconnectReason.NotAuthenticated, await client.Closing.WithinDeadline());
        Assert.InRange(_collector.Count * LineBytes, 1, 100_000 + MaxReadBytes);
    }

    [Fact]
    public async Task It_is_offered_while_there_is_a_place_and_the_place_is_for_both_directions()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxCompressedConnections = 1 }, listener =>
        {
            listener.Protocol = ClientProtocol.Telnet;
            listener.Telnet.Offered = TelnetFeatures.InputCompression;
        });
        using var first = await LineClient.ConnectAsync(server.EndPoint);
        await first.SendAsync(Bytes("FF FD 56 FF FD 57"));
        Assert.Equal(Bytes("FF FB 57 FF FB 56 FF FA 56 FF F0"), await ReadAsync(first, 11));
        Assert.Equal(1, server.Transport.Connections.Compressed);

        using var second = await LineClient.ConnectAsync(server.EndPoint);
        await second.SendAsync(Bytes("FF FD 57"));
        Assert.Equal(Bytes("FF FC 57"), await ReadAsync(second, 3));

        first.Dispose();
        await Until.TrueAsync(() => server.Transport.Connections.Compressed == 0);
        using var third = await LineClient.ConnectAsync(server.EndPoint);
        Assert.Equal(Bytes("FF FB 57"), await ReadAsync(third, 3));
    }

    [Fact]
    public async Task A_client_whose_input_can_not_be_inflated_is_disconnected_and_the_log_says_why()
    {
        await using var server = await TcpServer.StartAsync(configure: listener => listener.Protocol = ClientProtocol.Telnet);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();
        await client.SendAsync((byte[])[.. Bytes("FF FD 57 FF FA 57 FF F0"), .. Compress("'look' 0D 0A"), .. Bytes("'plain' 0D 0A FF FA 57 FF F0 'GET / HTTP/1.1'")]);

        Assert.Contains("broke its protocol: compressed input that can't be inflated.", await server.LoggedAsync(2305), StringComparison.Ordinal);
        client.Finish();
        Assert.Equal(DisconnectReason.ProtocolError, await handler.Ended.WithinDeadline());
        Assert.Equal("look", await handler.Records.ReadAsync().WithinDeadline());
        Assert.Equal("plain", await handler.Records.ReadAsync().WithinDeadline());
    }

    /// <summary>Reads the bomb on this thread, as far as limits let it.</summary>
    private (ClientConnection Client, Task<InboundEnd> Reading) Start(BroadcastOptions options)
    {
        var (client, reader) = Connect(options);
        var source = new FragmentSource();
        source.Start(Bomb);
        var delivery = new InboundDelivery(client, _collector, output: null, options, new LogThrottle(_clock), NullLogger.Instance);
        return (client, new ByteInbound(client, source, reader, options, NullLogger.Instance).RunAsync(delivery, CancellationToken.None));
    }

    private (ClientConnection Client, IRecordReader Reader) Connect(BroadcastOptions options)
    {
        var queue = new SendQueue(new FakeWire(), new SendQueueLimits(1 << 20, 1000, SlowConsumerPolicy.Disconnect), new DeliveryCounters(), _clock);
        return TelnetConnectionFactory.Create(Some.Connection(), new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false), queue, options, Silent, _clock, options.TextInputLimits);
    }

    private static async Task<byte[]> ReadAsync(LineClient client, int bytes)
    {
        var read = new byte[bytes];
        await client.Stream.ReadExactlyAsync(read).WithinDeadline();
        return read;
    }
}
