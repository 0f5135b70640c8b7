using BatchKit.Mqtt.Tests.Connections;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Tests.Receiving;

/// <summary>What one bad message of a broker does to a receiver and to the messages behind it.</summary>
public sealed class QuarantineTests : IDisposable
{
    private const int Omitted = 2448;
    private const int Skipped = 2449;
    private const int Stands = 2406;

    private readonly FakeBroker _broker = new();
    private readonly LogCollector _log = new();
    private readonly CollectingTransport _arrived = new();

    public static TheoryData<string, string, string, string, bool> Damaged => new()
    {
        { "a topic that is not UTF-8", "32 07 00 02 C3 28 00 07 00", "'\\u{FFFD}('", "40 02 00 07", false },
        { "a wildcard in the topic", "32 07 00 02 74 23 00 07 00", "'t#'", "40 02 00 07", true },
        { "a user property that is not UTF-8", "33 0E 00 01 74 00 07 08 26 00 01 61 00 02 C3 28", "'t'", "40 02 00 07", false },
        { "an unknown property, QoS 2", "34 08 00 01 74 00 07 02 04 01", "'t'", "50 02 00 07", true },
        { "a topic alias, which was not allowed", "32 09 00 01 74 00 07 03 23 00 01", "'t'", "40 02 00 07", false },
        { "QoS 3", "36 06 00 01 74 00 07 00", "'t'", "", false },
        { "QoS 0 sent again", "38 04 00 01 74 00", "'t'", "", true },
        { "a topic that is longer than its packet", "32 04 00 09 74 00", "''", "", false },
        { "packet id 0", "32 06 00 01 74 00 00 00", "'t'", "", false },
    };

    public void Dispose()
    {
        _broker.Dispose();
        _log.Dispose();
    }

    [Theory]
    [MemberData(nameof(Damaged))]
    public async Task A_message_that_breaks_the_protocol_closes_the_connection_once_and_is_skipped_afterwards(
        string what, string packet, string topic, string acknowledgement, bool isShared)
    {
        await using var scene = Start(isShared);
        using (var first = await SubscribedAsync())
        {
            await first.WriteAsync(Bytes(packet));
            var goodbye = await first.ReadAsync();
            Assert.True(goodbye[0] == 0xE0 && goodbye[2] >= 0x80, what);
        }

        for (var connection = 1; connection <= 2; connection++)
        {
            using var later = await SubscribedAsync();
            await later.WriteAsync([.. Bytes(packet), .. Good(9)]);

            if (acknowledgement.Length > 0)
                Assert.Equal(Bytes(acknowledgement), await later.ReadAsync());
            Assert.Equal([0x40, 2, 0, 9], await later.ReadAsync());
            Assert.Equal((connection, connection), (_arrived.MessageCount, scene.Receiver.SkippedMessages));
        }

        Assert.All(_log.Entries.Where(static entry => entry.Id == Skipped), entry => Assert.Contains($"for the topic {topic} ", entry.Text, StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("32", "40")]
    [InlineData("34", "50")]
    public async Task A_message_that_is_too_large_is_skipped_on_MQTT_5_too(string header, string acknowledgement)
    {
        await using var scene = Start(isShared: false, static options => options.MaxPacketBytes = 2000);
        using var broker = await SubscribedAsync();

        await broker.WriteAsync([.. Bytes($"{header} B8 17 00 01 74 00 07"), .. new byte[2995], .. Good(9)]);

        Assert.Equal(Bytes($"{acknowledgement} 02 00 07"), await broker.ReadAsync());
        Assert.Equal([0x40, 2, 0, 9], await broker.ReadAsync());
        Assert.Equal((1, 1, 1), (_arrived.MessageCount, scene.Receiver.SkippedMessages, _log.Count(Omitted)));
    }

    [Fact]
    public async Task Messages_before_the_one_that_closes_the_connection_are_delivered_and_acknowledged()
    {
        await using var scene = Start(isShared: false);
        using var broker = await SubscribedAsync();

        await broker.WriteAsync([.. Good(9), .. Bytes("30 05 00 02 C3 28 00")]);

        Assert.Equal([0x40, 2, 0, 9], await broker.ReadAsync());
        Assert.Equal(0xE0, (await broker.ReadAsync())[0]);
        Assert.Equal(1, _arrived.MessageCount);
    }

    [Fact]
    public async Task A_broker_whose_packets_have_no_readable_length_is_named_as_the_reason_why_the_receiver_stands()
    {
        await using var scene = Start(isShared: false);
        for (var connection = 0; connection < 3; connection++)
        {
            using var broker = await SubscribedAsync();
            await broker.WriteAsync(Bytes("30 80 80 80 80 01"));
            await broker.ReadToEndAsync();
        }

        await _log.WaitForAsync(Stands, count: 2);
        Assert.Contains("more than four bytes", scene.Receiver.Fault, StringComparison.Ordinal);
        Assert.Equal(0, scene.Receiver.SkippedMessages);
    }

    private static byte[] Good(byte packetId) => [0x32, 6, 0, 1, (byte)'t', 0, packetId, 0];

    private static byte[] Bytes(string hex) => Convert.FromHexString(hex.Replace(" ", "", StringComparison.Ordinal));

    private async Task<FakeBrokerConnection> SubscribedAsync()
    {
        var broker = await _broker.WelcomeAsync();
        var subscribe = await broker.ReadAsync();
        await broker.WriteAsync(0x90, 4, subscribe[2], subscribe[3], 0, 1);
        return broker;
    }

    private Scene Start(bool isShared, Action<MqttOptions>? configure = null)
    {
        var options = ConnectionSome.Options(_broker);
        (options.ReconnectDelay, options.SharesConnection, options.ClientId) = (TimeSpan.FromMilliseconds(10), isShared, "some");
        options.Subscriptions.Add(new MqttSubscription { Filter = "t" });
        configure?.Invoke(options);
        var logger = new Logger<MqttReceiver>(_log);
        var transport = isShared ? new MqttTransport(options) : null;
        var receiver = transport is null
            ? new MqttReceiver(options, node: 1, new BatchReceiver(_arrived), logger: logger)
            : new MqttReceiver(transport, node: 1, new BatchReceiver(_arrived), logger: logger);
        _ = receiver.StartAsync(CancellationToken.None);
        return new Scene(receiver, transport);
    }

    private sealed record Scene(MqttReceiver Receiver, MqttTransport? Transport) : IAsyncDisposable
    {
        public async ValueTask DisposeAsync()
        {
            await Receiver.DisposeAsync();
            if (Transport is not null)
                await Transport.DisposeAsync();
        }
    }
}
