using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>What a connection reads, and how it ends.</summary>
public class MqttConnectionTests : ConnectionTests
{
    private readonly RecordingHandler _handler = new();

    [Fact]
    public async Task Packets_that_arrive_byte_by_byte_are_read_whole()
    {
        var (_, broker, running) = await RunAsync(_handler);
        byte[][] packets = [ConnectionSome.Publish(1), ConnectionSome.Publish(2, payloadBytes: 200), [0x40, 2, 0, 7], ConnectionSome.PingResponse, ConnectionSome.Publish(3)];

        await broker.WriteBytesOneByOneAsync([.. packets.SelectMany(static packet => packet)]);

        Assert.Equal(packets[0][2..], (await _handler.NextAsync())[1..]);
        Assert.Equal(packets[1][3..], (await _handler.NextAsync())[1..]);
        Assert.Equal([0x40, 0, 7], await _handler.NextAsync());
        Assert.Equal(packets[4][2..], (await _handler.NextAsync())[1..]);
        await StopAsync(running);
    }

    [Fact]
    public async Task Large_and_small_packets_in_turn_are_read_whole()
    {
        var (_, broker, running) = await RunAsync(_handler);
        int[] sizes = [10, 300_000, 10, 20_000, 1_500_000, 16_384, 1];

        for (var number = 0; number < sizes.Length; number++)
            await broker.WriteAsync(ConnectionSome.Publish(number, sizes[number]));

        for (var number = 0; number < sizes.Length; number++)
        {
            var packet = await _handler.NextAsync();
            Assert.Equal(1 + 4 + sizes[number], packet.Length);
            Assert.All(packet[5..], value => Assert.Equal(number, value));
        }

        await StopAsync(running);
    }

    [Theory]
    [InlineData(MqttVersion.V311, 1)]
    [InlineData(MqttVersion.V5, 7)]
    [InlineData(MqttVersion.V311, 5000)]
    public async Task A_publish_above_the_limit_is_read_past_and_its_beginning_handled(MqttVersion version, int bytesOfAWrite)
    {
        var (_, broker, running) = await RunAsync(_handler, configure: options => (options.Version, options.MaxPacketBytes) = (version, 1024));
        byte[] large = [0x32, .. Length(2000), 0, 1, (byte)'t', 0, 9, .. new byte[1995]];
        byte[] longTopic = [0x32, .. Length(2000), 0xFF, 0xFF, .. new byte[1998]];
        byte[] behind = [0x30, 4, 0, 1, (byte)'t', 5];

        foreach (var part in (byte[][])[.. large.Concat(longTopic).Concat(behind).Chunk(bytesOfAWrite)])
            await broker.WriteAsync(part);

        Assert.Equal([0x32, 0, 1, (byte)'t', 0, 9], await _handler.NextAsync());
        Assert.Equal([0x32, 0xFF, 0xFF], await _handler.NextAsync());
        Assert.Equal([0x30, 0, 1, (byte)'t', 5], await _handler.NextAsync());
        await StopAsync(running);
    }

    [Fact]
    public async Task What_came_in_one_write_with_the_connack_is_handled()
    {
        var connecting = CreateConnector(ConnectionSome.Options(Broker)).ConnectAsync(cleanStart: false, CancellationToken.None);
        using var broker = await Broker.AcceptAsync();
        await broker.ReadAsync();
        await broker.WriteAsync([.. ConnectionSome.Connack, .. ConnectionSome.Publish(1)]);
        await using var connection = await connecting.WithinDeadline();

        var running = connection.RunAsync(_handler, Stop.Token);

        Assert.Equal(0x30, (await _handler.NextAsync())[0]);
        await StopAsync(running);
    }

    [Theory]
    [InlineData(0x8E, "taken over by another connection with the same client id")]
    [InlineData(0x8B, "ServerShuttingDown (0x8B)")]
    public async Task A_disconnect_ends_it_with_its_reason(byte code, string words)
    {
        var (connection, broker, running) = await RunAsync(_handler);

        await broker.WriteAsync([.. ConnectionSome.Publish(1), 0xE0, 7, code, 5, 0x1F, 0, 2, (byte)'h', (byte)'o']);
        var reason = await running.WithinDeadline();

        Assert.Contains(words, reason, StringComparison.Ordinal);
        Assert.Contains("'ho'", reason, StringComparison.Ordinal);
        Assert.Equal((MqttReasonCode)code, connection.End?.Notice);
        Assert.Equal(1, _handler.Count);
        Assert.Empty(await broker.ReadToEndAsync());
    }

    [Fact]
    public async Task A_disconnect_is_read_although_a_write_has_failed_before()
    {
        var release = new TaskCompletionSource();
        var handler = new RecordingHandler { Release = release.Task };
        var time = new ManualTimeProvider();
        var (connection, broker) = await ConnectAsync(time);
        var output = connection.Open(source: null);
        var running = connection.RunAsync(handler, Stop.Token);
        await broker.WriteAsync(ConnectionSome.Publish(1));
        await handler.Busy.WithinDeadline();

        await broker.WriteAsync(0xE0, 2, 0x8B, 0);
        broker.Dispose();
        await Until.TrueAsync(() =>
        {
            output.Append(ConnectionSome.PingRequest);
            output.Flush();
            return output.Failed.IsCompleted;
        });
        await Until.TrueAsync(() => time.NextDue == TimeSpan.FromSeconds(1) || connection.End is not null);
        release.SetResult();

        Assert.Contains("ServerShuttingDown (0x8B)", await running.WithinDeadline(), StringComparison.Ordinal);
        Assert.Equal(MqttReasonCode.ServerShuttingDown, connection.End?.Notice);
    }

    [Fact]
    public async Task A_closed_connection_ends_it()
    {
        var (connection, broker, running) = await RunAsync(_handler);

        broker.Dispose();

        Assert.Contains("closed the connection and named no reason", await running.WithinDeadline(), StringComparison.Ordinal);
        Assert.True(connection.End?.IsUnexplained);
    }

    [Fact]
    public async Task A_reset_ends_it()
    {
        var (_, broker, running) = await RunAsync(_handler);

        broker.Reset();

        Assert.Contains("broke", await running.WithinDeadline(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_server_that_a_DISCONNECT_names_is_told()
    {
        var (_, broker, running) = await RunAsync(_handler);

        await broker.WriteAsync(0xE0, 7, 0x9D, 5, 0x1C, 0, 2, (byte)'b', (byte)'2');

        Assert.Contains("ServerMoved (0x9D). It names another server: 'b2'.", await running.WithinDeadline(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(new byte[] { 0x20, 3, 0, 0, 0 }, 0x82)]
    [InlineData(new byte[] { 0x00, 0 }, 0x81)]
    [InlineData(new byte[] { 0x30, 0xFF, 0xFF, 0xFF, 0xFF }, 0x81)]
    [InlineData(new byte[] { 0x90, 0xFF, 0xFF, 0xFF, 0x7F }, 0x95)]
    [InlineData(new byte[] { 0xC0, 0 }, 0x82)]
    [InlineData(new byte[] { 0xF0, 2, 0x19, 0 }, 0x8C)]
    public async Task What_the_protocol_forbids_is_answered_with_its_reason_code(byte[] forbidden, byte code)
    {
        var (_, broker, running) = await RunAsync(_handler);

        await broker.WriteAsync(forbidden);
        var answer = await broker.ReadAsync();
        broker.Dispose();
        var reason = await running.WithinDeadline();

        Assert.Equal([0xE0, 2, code, 0], answer);
        Assert.Contains("broke the protocol", reason, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_the_handler_finds_forbidden_is_answered_with_its_reason_code()
    {
        var handler = new RecordingHandler { Failure = new MqttProtocolException(MqttReasonCode.TopicAliasInvalid, "No such alias.") };
        var (_, broker, running) = await RunAsync(handler);

        await broker.WriteAsync(ConnectionSome.Publish(1));
        var answer = await broker.ReadAsync();
        broker.Dispose();

        Assert.Equal([0xE0, 2, 0x94, 0], answer);
        Assert.Contains("No such alias.", await running.WithinDeadline(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task MQTT_3_closes_without_a_goodbye_at_what_the_protocol_forbids()
    {
        var (_, broker, running) = await RunAsync(_handler, configure: static options => options.Version = MqttVersion.V311);

        await broker.WriteAsync(0xE0, 0);
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();

        Assert.Empty(rest);
        Assert.Contains("broke the protocol", await running.WithinDeadline(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_handler_that_throws_what_it_must_not_closes_the_connection()
    {
        var handler = new RecordingHandler { Failure = new InvalidOperationException("defect") };
        var (_, broker, running) = await RunAsync(handler);

        await broker.WriteAsync(ConnectionSome.Publish(1));

        await Assert.ThrowsAsync<InvalidOperationException>(() => running.WithinDeadline());
        Assert.Empty(await broker.ReadToEndAsync());
    }

    private static byte[] Length(int value)
    {
        var bytes = new byte[VariableByteInteger.Measure(value)];
        VariableByteInteger.Write(bytes, value);
        return bytes;
    }

    private async Task StopAsync(Task<string> running)
    {
        await Stop.CancelAsync();
        await running.WithinDeadline();
    }
}

/// <summary>The same over a connection with a thread of its own.</summary>
public sealed class BlockingMqttConnectionTests : MqttConnectionTests
{
    protected override bool MayBlock => true;
}
