using System.IO.Compression;
using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Connections;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class CompressionTests(ITestOutputHelper output)
{
    private static readonly byte[] Start = TelnetScene.Bytes("FF FB 56 FF FA 56 FF F0");

    private readonly TelnetScene _scene = new();

    [Fact]
    public void Everything_behind_the_start_is_compressed()
    {
        Send("plain\r\n");
        _scene.Read("FF FD 56");
        Send("one\r\n");
        Send("two\r\n");

        Assert.True(_scene.Terminal.IsCompressed);
        Assert.Equal([.. "plain\r\n"u8, .. Start], _scene.Sent[..(7 + Start.Length)]);
        Assert.Equal("one\r\ntwo\r\n", Inflate(_scene.Sent[(7 + Start.Length)..]));
    }

    [Fact]
    public void Each_message_can_be_read_when_it_was_sent()
    {
        _scene.Read("FF FD 56");

        for (var message = 1; message <= 100; message++)
        {
            Send($"line {message}\r\n");
            Assert.EndsWith($"line {message}\r\n", Inflate(_scene.Sent[Start.Length..]), StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task The_stream_ends_in_order_when_the_connection_closes()
    {
        _scene.Read("FF FD 56");
        Send("goodbye\r\n");

        _scene.Connection.Close();
        await _scene.Queue.Ended.WithinDeadline();

        Assert.True(_scene.Wire.IsFinished);
        Assert.Equal("goodbye\r\n", InflateWhole(_scene.Sent[Start.Length..]));
    }

    [Fact]
    public async Task A_client_may_end_it_and_gets_plain_text_from_there_on_and_no_second_start()
    {
        _scene.Read("FF FD 56");
        Send("packed\r\n");
        _scene.Read("FF FE 56");
        Send("plain\r\n");
        _scene.Read("FF FD 56");
        Send("plain too\r\n");
        _scene.Connection.Close();
        await _scene.Queue.Ended.WithinDeadline();

        var rest = TelnetScene.Bytes("'plain' 0D 0A FF FC 56 'plain too' 0D 0A");
        Assert.Equal(rest, _scene.Sent[^rest.Length..]);
        Assert.Equal([.. "packed\r\n"u8, 255, 252, 86], InflateBytes(_scene.Sent[Start.Length..^rest.Length]));
        Assert.False(_scene.Terminal.IsCompressed);
    }

    [Fact]
    public async Task Compression_starts_behind_what_waits_for_a_client_that_does_not_read()
    {
        _scene.Wire.Limit(3);
        Send("before\r\n");
        _scene.Read("FF FD 56");
        Send("behind\r\n");
        Assert.False(_scene.Terminal.IsCompressed);

        _scene.Wire.Open();
        _scene.Connection.Close();
        await _scene.Queue.Ended.WithinDeadline();

        Assert.Equal([.. "before\r\n"u8, .. Start], _scene.Sent[..(8 + Start.Length)]);
        Assert.Equal("behind\r\n", InflateWhole(_scene.Sent[(8 + Start.Length)..]));
    }

    [Fact]
    [Trait("Lane", "slow: many random inputs")]
    public async Task Nothing_is_lost_doubled_or_reordered_whenever_the_socket_blocks()
    {
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var random = new Random(seed);
        for (var round = 0; round < 50; round++)
            await SendUnderRandomBlockingAsync(random);
    }

    [Fact]
    public async Task No_more_clients_are_compressed_than_may_be_and_one_that_leaves_makes_place()
    {
        byte[] request = [255, 253, 86];
        byte[] refusal = [255, 252, 86];
        byte[] agreement = [255, 251, 86, 255, 250, 86, 255, 240];
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxCompressedConnections = 1 }, listener =>
        {
            listener.Protocol = ClientProtocol.Telnet;
            listener.Telnet.Offered = TelnetFeatures.None;
        });
        var first = await LineClient.ConnectAsync(server.EndPoint);
        await first.SendAsync(request);
        var answer = await ReadAsync(first, agreement.Length);
        using var second = await LineClient.ConnectAsync(server.EndPoint);
        await second.SendAsync(request);
        var answerToSecond = await ReadAsync(second, refusal.Length);

        first.Dispose();
        await Until.TrueAsync(() => server.Transport.Connections.Compressed == 0);
        using var third = await LineClient.ConnectAsync(server.EndPoint);
        await third.SendAsync(request);

        Assert.Equal(agreement, answer);
        Assert.Equal(refusal, answerToSecond);
        Assert.Equal(agreement, await ReadAsync(third, agreement.Length));
    }

    [Fact]
    public void What_is_held_for_a_client_that_does_not_read_is_bounded()
    {
        var limits = new SendQueueLimits(256 * 1024, 100_000, SlowConsumerPolicy.DropNewest);
        var scene = new TelnetScene(limits: limits);
        scene.Read("FF FD 56");
        var noise = new byte[20_000];
        new Random(1).NextBytes(noise);
        scene.Wire.Limit(0);

        for (var message = 0; message < 1000; message++)
            Send(scene, noise);

        Assert.InRange(scene.Queue.HeldBytes, 1, limits.MaxBytes);
        Assert.InRange(scene.Counters[DeliveryOutcome.Sent].Bytes, 0, 2 * noise.Length);
    }

    [Fact]
    public async Task An_abort_at_any_time_ends_it_without_a_failure_that_is_not_caught()
    {
        for (var round = 0; round < 200; round++)
        {
            var scene = new TelnetScene();
            scene.Read("FF FD 56");
            scene.Wire.Limit(round * 10);
            var sending = Task.Run(() =>
            {
                for (var message = 0; message < 50; message++)
                    Send(scene, Some.RandomBytes(200, seed: message));
            });
            scene.Connection.Abort();
            await sending.WithinDeadline();
            await scene.Queue.Ended.WithinDeadline();
        }
    }

    private static async Task SendUnderRandomBlockingAsync(Random random)
    {
        var wire = new FitfulWire(new Random(random.Next()));
        var scene = new TelnetScene(wire: wire);
        scene.Read("FF FD 56");
        var expected = new List<byte>();
        for (var step = 0; step < 100; step++)
        {
            var message = new byte[random.Next(10) == 0 ? random.Next(40_000) : random.Next(100)];
            random.NextBytes(message);
            message.AsSpan().Replace(byte.MaxValue, (byte)0);
            expected.AddRange(message);
            Send(scene, message);
            if (random.Next(5) == 0)
                await Task.Yield();
        }

        scene.Connection.Close();
        await scene.Queue.Ended.WithinDeadline();

        Assert.True(wire.IsFinished);
        Assert.Equal(Start, wire.Written[..Start.Length]);
        Assert.Equal(expected, InflateBytes(wire.Written[Start.Length..]));
    }

    private void Send(string text) => Send(_scene, Encoding.UTF8.GetBytes(text));

    private static void Send(TelnetScene scene, byte[] bytes)
    {
        var tally = default(DeliveryTally);
        scene.Connection.Send(new OutputRun(bytes, messages: 1), ref tally);
        scene.Counters.Add(tally);
    }

    private static string Inflate(byte[] compressed) => Encoding.UTF8.GetString(InflateBytes(compressed));

    private static byte[] InflateBytes(byte[] compressed)
    {
        using var zlib = new ZLibStream(new MemoryStream(compressed), CompressionMode.Decompress);
        using var inflated = new MemoryStream();
        zlib.CopyTo(inflated);
        return inflated.ToArray();
    }

    /// <summary>Inflates a stream that must have its end.</summary>
    private static string InflateWhole(byte[] compressed)
    {
        var text = Inflate(compressed);
        var sum = (1u, 0u);
        foreach (var value in Encoding.UTF8.GetBytes(text))
            sum = ((sum.Item1 + value) % 65521, (sum.Item2 + ((sum.Item1 + value) % 65521)) % 65521);
        Assert.Equal((sum.Item2 << 16) | sum.Item1, System.Buffers.Binary.BinaryPrimitives.ReadUInt32BigEndian(compressed.AsSpan()[^4..]));
        return text;
    }

    private static async Task<byte[]> ReadAsync(LineClient client, int bytes)
    {
        var read = new byte[bytes];
        await client.Stream.ReadExactlyAsync(read).WithinDeadline();
        return read;
    }
}
