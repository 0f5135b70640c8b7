using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Receiving;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Mqtt.Tests.Receiving;

/// <summary>What a connection does with the packets of a read, without a network.</summary>
public sealed class SubscribedConnectionTests : IDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _nextHop;
    private readonly MemoryStream _written = new();
    private readonly PacketOutput _output;
    private readonly CancellationTokenSource _abandon = new();
    private readonly InboundState _state = new(LogTo(NullLogger.Instance));
    private readonly SubscribedConnection _connection;

    public SubscribedConnectionTests()
    {
        _nextHop = new ScriptedTransport(_arrived);
        _output = new PacketOutput(_written, source: null);
        _connection = Connect(isSessionPresent: false);
    }

    [Fact]
    public async Task All_messages_of_a_read_are_acknowledged_in_order_and_in_one_write_once_the_next_hop_has_them()
    {
        var stalled = _nextHop.Stall();
        for (ushort packetId = 1; packetId <= 300; packetId++)
            Give(new PublishFields { Topic = "a", Payload = Some.Bytes($"{packetId}") }, MqttQualityOfService.AtLeastOnce, packetId);

        var finishing = _connection.FinishReadAsync(CancellationToken.None);
        await stalled.EnteredAsync();
        var writtenBefore = _written.Length;
        stalled.Release();
        await finishing.AsTask().WithinDeadline();

        Assert.Equal(0, writtenBefore);
        Assert.Equal(Enumerable.Range(1, 300).SelectMany(id => new byte[] { 0x40, 2, (byte)(id >> 8), (byte)id }), _written.ToArray());
        Assert.Equal(300, Assert.Single(_arrived.Batches).Messages.Count);
    }

    [Fact]
    public async Task Messages_with_QoS_0_are_not_acknowledged()
    {
        Give(new PublishFields { Topic = "a", Payload = [1] }, MqttQualityOfService.AtMostOnce, packetId: 0);

        await _connection.FinishReadAsync(CancellationToken.None);

        Assert.Equal(1, _arrived.MessageCount);
        Assert.Equal(0, _written.Length);
    }

    [Fact]
    public async Task A_read_that_was_abandoned_is_not_acknowledged_nor_is_it_with_a_later_one()
    {
        var stalled = _nextHop.Stall();
        Give(new PublishFields { Topic = "a" }, MqttQualityOfService.AtLeastOnce, packetId: 1);
        var finishing = _connection.FinishReadAsync(CancellationToken.None);
        await stalled.EnteredAsync();

        await _abandon.CancelAsync();
        await finishing.AsTask().WithinDeadline();
        await _connection.FinishReadAsync(CancellationToken.None);

        Assert.Equal(0, _written.Length);
    }

    [Fact]
    public async Task The_end_of_the_connection_does_not_give_up_what_is_in_hand()
    {
        var stalled = _nextHop.Stall();
        Give(new PublishFields { Topic = "a" }, MqttQualityOfService.AtLeastOnce, packetId: 1);

        var finishing = _connection.FinishReadAsync(new CancellationToken(canceled: true));
        await stalled.EnteredAsync();
        stalled.Release();
        await finishing.AsTask().WithinDeadline();

        Assert.Equal(1, _arrived.MessageCount);
    }

    [Fact]
    public async Task Messages_of_changing_topics_are_batches_in_their_order_with_rising_numbers()
    {
        foreach (var topic in (string[])["a", "a", "b", "a"])
            Give(new PublishFields { Topic = topic, Payload = Some.Bytes(topic) }, MqttQualityOfService.AtMostOnce, packetId: 0);
        await _connection.FinishReadAsync(CancellationToken.None);
        Give(new PublishFields { Topic = "a" }, MqttQualityOfService.AtMostOnce, packetId: 0);
        await _connection.FinishReadAsync(CancellationToken.None);

        Assert.Equal([("a", 2, 1L), ("b", 1, 2L), ("a", 1, 3L), ("a", 1, 4L)], _arrived.Batches.Select(batch => (batch.Handle.Name!, batch.Messages.Count, batch.Number)));
        Assert.Single(_arrived.Batches.Select(batch => batch.Producer).Distinct());
    }

    [Fact]
    public async Task A_read_of_more_topics_than_a_frame_holds_arrives_whole()
    {
        const int count = 70_000;
        for (var number = 0; number < count; number++)
            Give(new PublishFields { Topic = $"{number % 2}", Payload = Some.Bytes($"{number}") }, MqttQualityOfService.AtMostOnce, packetId: 0);

        await _connection.FinishReadAsync(CancellationToken.None);

        Assert.Equal(Enumerable.Range(0, count).Select(number => $"{number}"), _arrived.Texts);
    }

    [Fact]
    public async Task A_message_above_the_receivers_limit_is_dropped_and_acknowledged_and_the_others_arrive_in_order()
    {
        var limited = new BatchReceiver(_arrived, new BatchReceiverOptions { Limits = new FrameLimits { MaxFrameBytes = 1000 } });
        using var log = new LogCollector();
        var connection = new SubscribedConnection(Arrivals(log), limited, _output, MqttVersion.V5, _state, lease: null, _abandon.Token);
        for (ushort packetId = 1; packetId <= 99; packetId++)
            Give(connection, new PublishFields { Topic = "a", Payload = packetId == 50 ? new byte[2000] : Some.Bytes($"{packetId}") }, MqttQualityOfService.AtLeastOnce, packetId);

        await connection.FinishReadAsync(CancellationToken.None);

        Assert.Equal(Enumerable.Range(1, 99).Where(static id => id != 50).Select(static id => $"{id}"), _arrived.Texts);
        Assert.Equal(99 * 4, _written.Length);
        Assert.Contains("'a'", Assert.Single(log.Entries, static entry => entry.Id == 2445).Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Messages_whose_payload_was_not_kept_are_acknowledged_in_their_turn_and_not_delivered()
    {
        using var log = new LogCollector();
        var connection = new SubscribedConnection(Arrivals(log), new BatchReceiver(_arrived), _output, MqttVersion.V311, new InboundState(LogTo(log)), lease: null, _abandon.Token);
        byte[] beginning = [0, 1, (byte)'a', 0, 7];

        connection.Handle(new PacketHeader(PacketType.Publish, 0b0010, beginning.Length, OmittedBytes: 5000), beginning);
        await connection.FinishReadAsync(CancellationToken.None);

        Assert.Equal(0, _arrived.MessageCount);
        Assert.Equal([0x40, 2, 0, 7], _written.ToArray());
        Assert.Contains("5000 bytes for the topic 'a'", Assert.Single(log.Entries, static entry => entry.Id == 2448).Text, StringComparison.Ordinal);
    }

    // A connection that is shared stops reading by these bytes. With QoS 0 nothing else does.
    [Fact]
    public void Messages_without_a_payload_count_by_the_memory_of_their_properties()
    {
        const int properties = 1000;
        var messages = new ReceivedMessages(Arrivals(NullLogger.Instance), _state);
        var packet = Packet(new PublishFields { Topic = "a", UserProperties = [.. Enumerable.Repeat(KeyValuePair.Create("k", "v"), properties)] }, MqttQualityOfService.AtMostOnce, packetId: 0, topicAlias: 0, out var header);

        messages.Add(header, packet, MqttVersion.V5);

        // Two strings and their place in an array.
        Assert.InRange(messages.Bytes, properties * 64, properties * 256);
    }

    [Fact]
    public void A_topic_alias_breaks_the_protocol_because_none_was_allowed()
    {
        var exception = Assert.Throws<MqttProtocolException>(() => Give(new PublishFields { Topic = "a" }, MqttQualityOfService.AtLeastOnce, packetId: 1, topicAlias: 3));

        Assert.Equal(MqttReasonCode.TopicAliasInvalid, exception.ReasonCode);
    }

    [Fact]
    public async Task A_message_of_QoS_2_is_delivered_once_over_all_connections_of_its_session()
    {
        await ReceiveAsync(isSessionPresent: false);
        await ReceiveAsync(isSessionPresent: true);
        var deliveredOnce = _arrived.MessageCount;
        var released = Connect(isSessionPresent: true);
        released.Handle(new PacketHeader(PacketType.Pubrel, 0b0010, 2), [0, 7]);
        await released.FinishReadAsync(CancellationToken.None);
        await ReceiveAsync(isSessionPresent: true);
        await ReceiveAsync(isSessionPresent: false);

        Assert.Equal((1, 3), (deliveredOnce, _arrived.MessageCount));
        byte[] received = [0x50, 2, 0, 7];
        Assert.Equal([.. received, .. received, 0x70, 2, 0, 7, .. received, .. received], _written.ToArray());

        async Task ReceiveAsync(bool isSessionPresent)
        {
            var connection = Connect(isSessionPresent);
            Give(connection, new PublishFields { Topic = "a" }, MqttQualityOfService.ExactlyOnce, packetId: 7);
            await connection.FinishReadAsync(CancellationToken.None);
        }
    }

    [Fact]
    public async Task A_message_of_QoS_2_whose_delivery_was_abandoned_is_taken_again()
    {
        var stalled = _nextHop.Stall();
        Give(new PublishFields { Topic = "a" }, MqttQualityOfService.ExactlyOnce, packetId: 7);
        var finishing = _connection.FinishReadAsync(CancellationToken.None);
        await stalled.EnteredAsync();
        await _abandon.CancelAsync();
        await finishing.AsTask().WithinDeadline();

        Assert.False(_state.Delivered.Contains(7));
        Assert.Equal(0, _written.Length);
    }

    [Fact]
    public void A_packet_for_a_publisher_breaks_the_protocol()
    {
        var exception = Assert.Throws<MqttProtocolException>(() => _connection.Handle(new PacketHeader(PacketType.Puback, 0, 2), [0, 1]));

        Assert.Equal(MqttReasonCode.ProtocolError, exception.ReasonCode);
    }

    [Fact]
    public async Task The_answer_to_the_subscriptions_is_given_out()
    {
        var first = _connection.ExpectAnswer();
        _connection.Handle(new PacketHeader(PacketType.Suback, 0, 5), [0, 1, 0, 1, 0x87]);
        var second = _connection.ExpectAnswer();
        _connection.Handle(new PacketHeader(PacketType.Suback, 0, 4), [0, 1, 0, 0]);

        Assert.Equal([MqttReasonCode.GrantedQoS1, MqttReasonCode.NotAuthorized], (await first.WithinDeadline()).ReasonCodes);
        Assert.Equal([MqttReasonCode.Success], (await second.WithinDeadline()).ReasonCodes);
    }

    public void Dispose()
    {
        _output.Dispose();
        _written.Dispose();
        _abandon.Dispose();
    }

    private static TopicArrivals Arrivals(ILogger logger) => new(node: 1, LogTo(logger), new HeldFrame(TimeProvider.System));

    private static ReceiverLog LogTo(ILogger logger) => new(GuardedLogger.Of(logger), TimeProvider.System);

    private SubscribedConnection Connect(bool isSessionPresent)
    {
        _state.Connect(isSessionPresent);
        return new SubscribedConnection(Arrivals(NullLogger.Instance), new BatchReceiver(_nextHop), _output, MqttVersion.V5, _state, lease: null, _abandon.Token);
    }

    private void Give(PublishFields fields, MqttQualityOfService qualityOfService, ushort packetId, ushort topicAlias = 0) =>
        Give(_connection, fields, qualityOfService, packetId, topicAlias);

    private static void Give(SubscribedConnection connection, PublishFields fields, MqttQualityOfService qualityOfService, ushort packetId, ushort topicAlias = 0)
    {
        var body = Packet(fields, qualityOfService, packetId, topicAlias, out var header);
        connection.Handle(header, body);
    }

    private static ReadOnlySpan<byte> Packet(PublishFields fields, MqttQualityOfService qualityOfService, ushort packetId, ushort topicAlias, out PacketHeader header)
    {
        fields.QualityOfService = qualityOfService;
        var packet = new byte[PublishPacket.Measure(fields, MqttVersion.V5, topicAlias)];
        PublishPacket.Write(packet, fields, MqttVersion.V5, packetId, isDuplicate: false, topicAlias);
        Assert.True(PacketHeader.TryRead(packet, packet.Length, out header, out var headerBytes));
        return packet.AsSpan(headerBytes);
    }
}
