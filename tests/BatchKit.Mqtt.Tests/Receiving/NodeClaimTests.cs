using System.Text;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Receiving;
using BatchKit.Mqtt.Tests.Connections;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Receiving;

/// <summary>A claim on a node's number, at a broker that a test plays.</summary>
public sealed class NodeClaimTests : IDisposable
{
    private const int Number = 7;
    private const string Other = "someone else";

    private static readonly string OtherTopic = EnvelopeTopics.Leases("frames", Number) + "other";

    // Longer than any pause of the claim.
    private static readonly TimeSpan Long = TimeSpan.FromMinutes(10);

    private static readonly byte[] Suback = [0x90, 4, 0, 1, 0, 0];

    private readonly FakeBroker _broker = new();
    private readonly LogCollector _log = new();
    private readonly ManualTimeProvider _time = new();

    public void Dispose()
    {
        _broker.Dispose();
        _log.Dispose();
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Whoever_asks_is_told_what_the_broker_says_after_the_question(bool isTaken)
    {
        var claim = Create();
        var (starting, broker) = await StartAsync(claim);
        await AcceptAsync(broker);
        Assert.True(await starting.WithinDeadline());

        var asking = claim.AskAsync();
        await AnswerAsync(broker, isTaken);

        Assert.Equal(isTaken, (await asking.WithinDeadline())?.Contains(Other, StringComparison.Ordinal) ?? false);
        await EndAsync(claim, broker);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_holder_that_asks_keeps_the_number_beside_a_process_that_is_being_refused(bool isOwnFirst)
    {
        var claim = Create();
        var (starting, broker) = await StartAsync(claim);
        var (topic, mine) = await AcceptAsync(broker);
        await starting.WithinDeadline();

        var asking = claim.AskAsync();
        await SubscribeAsync(broker);
        byte[][] retained = [Claim(topic, mine, isRetained: true), Claim(OtherTopic, Other, isRetained: true)];
        await broker.WriteAsync([.. retained[isOwnFirst ? 0 : 1], .. retained[isOwnFirst ? 1 : 0], .. Claim(OtherTopic, Other, isRetained: false), .. Suback]);
        await PassOnAsync(broker);

        Assert.Null(await asking.WithinDeadline());
        await Until.TrueAsync(() => _time.NextDue == TimeSpan.FromSeconds(10));
        Assert.Null(claim.TakenReason);
        await EndAsync(claim, broker);
    }

    [Fact]
    public async Task Whoever_asks_without_a_connection_is_told_that_the_broker_could_not_be_asked()
    {
        var claim = Create();
        var (starting, broker) = await StartAsync(claim);
        await AcceptAsync(broker);
        await starting.WithinDeadline();
        _broker.Dispose();
        broker.Reset();

        var asking = claim.AskAsync();
        await Until.TrueAsync(() =>
        {
            _time.AdvanceToNextTimer();
            return asking.IsCompleted;
        });

        Assert.Contains("can't be reached", await asking, StringComparison.Ordinal);
        await claim.DisposeAsync().AsTask().WithinDeadline();
    }

    [Fact]
    public async Task A_broker_that_refuses_claims_lets_whoever_asks_connect()
    {
        var claim = Create();
        var (starting, broker) = await StartAsync(claim);
        await broker.ReadAsync();
        await broker.WriteAsync(0x90, 4, 0, 1, 0, 0x87);
        await starting.WithinDeadline();

        Assert.Null(await claim.AskAsync().WithinDeadline());
        await EndAsync(claim, broker);
    }

    [Fact]
    public async Task After_a_freeze_in_which_the_claim_may_have_expired_it_is_decided_again()
    {
        var claim = Create();
        var (starting, broker) = await StartAsync(claim);
        await AcceptAsync(broker);
        await starting.WithinDeadline();
        await Until.TrueAsync(() => _time.NextDue == TimeSpan.FromSeconds(10));

        // Its connection lasts longer than its claim.
        _time.Freeze(TimeSpan.FromSeconds(40));
        await AnswerAsync(broker, isTaken: true);

        Assert.Contains(Other, await claim.Taken.WithinDeadline(), StringComparison.Ordinal);
        await EndAsync(claim, broker);
    }

    [Theory]
    [InlineData(12, 18)]
    [InlineData(600, 30)]
    public async Task It_is_certain_until_the_broker_may_have_ended_it_and_again_when_the_broker_confirms_it(int keepAlive, int seconds)
    {
        var claim = Create(TimeSpan.FromSeconds(keepAlive));
        var (starting, broker) = await StartAsync(claim);
        Assert.False(claim.IsCertain);
        await AcceptAsync(broker);
        await starting.WithinDeadline();
        await Until.TrueAsync(() => _time.NextDue == TimeSpan.FromSeconds(10));

        var isCertain = claim.IsCertain;
        _time.Advance(TimeSpan.FromSeconds(10));
        var packetId = await ReadPublishAsync(broker);
        _time.Freeze(TimeSpan.FromSeconds(seconds - 10));
        var isCertainLater = claim.IsCertain;
        await broker.WriteAsync(0x40, 2, (byte)(packetId >> 8), (byte)packetId);

        Assert.Equal((true, false), (isCertain, isCertainLater));
        await Until.TrueAsync(() => claim.IsCertain);
        await EndAsync(claim, broker);
    }

    [Fact]
    public async Task A_connection_that_has_left_messages_to_the_broker_delivers_nothing_behind_them()
    {
        var lease = new MqttNodeLease(Options(Long), new NodeNumber(Number), _time, new GuardedLogger(_log));
        var taking = lease.TakeAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();
        await AcceptAsync(broker);
        await taking.WithinDeadline();
        List<string> obstacles = [];
        var delivery = new LeasedDelivery(lease, obstacles.Add);
        Assert.True(await delivery.IsAllowedAsync(CancellationToken.None));

        // The claim that the lease makes by itself after the freeze answers no question that comes behind it.
        await Until.TrueAsync(() => _time.NextDue == TimeSpan.FromSeconds(10));
        _time.Freeze(TimeSpan.FromSeconds(40));
        await SubscribeAsync(broker);
        var asking = delivery.IsAllowedAsync(CancellationToken.None).AsTask();
        await broker.WriteAsync(Suback);
        await PassOnAsync(broker);
        await AnswerAsync(broker, isTaken: true);
        Assert.False(await asking.WithinDeadline());
        Assert.Empty(Parse(await broker.ReadAsync()).Payload.ToArray());
        await Until.TrueAsync(() => _time.NextDue == TimeSpan.FromMilliseconds(250));
        _time.AdvanceToNextTimer();
        await AnswerAsync(broker, isTaken: false);
        await Until.TrueAsync(() => lease.IsCertain);

        Assert.False(await delivery.IsAllowedAsync(CancellationToken.None));
        Assert.Contains(Other, Assert.Single(obstacles), StringComparison.Ordinal);
        Assert.True(await new LeasedDelivery(lease, obstacles.Add).IsAllowedAsync(CancellationToken.None));
        broker.Dispose();
        await lease.DisposeAsync().AsTask().WithinDeadline();
    }

    [Fact]
    public async Task A_shared_connection_that_is_lost_after_the_receivers_stop_is_made_again_for_what_is_published()
    {
        var options = Options(Long);
        (options.SharesConnection, options.ClientId, options.ConnectTimeout) = (true, "some", TimeSpan.FromMinutes(5));
        await using var transport = new MqttTransport(options, _time);
        await using var receiver = new MqttReceiver(transport, new NodeNumber(Number), leasesNode: true, new BatchReceiver(new CollectingTransport()), _time, logger: null);
        var leasing = receiver.LeaseAsync(CancellationToken.None);
        using var leaseBroker = await _broker.WelcomeAsync();
        await AcceptAsync(leaseBroker);
        await leasing.WithinDeadline();
        var starting = receiver.StartAsync(CancellationToken.None);
        await AcceptAsync(leaseBroker);
        using var broker = await _broker.WelcomeAsync();
        await AcceptAsync(leaseBroker);
        var subscribe = await broker.ReadAsync();
        await broker.WriteAsync(0x90, 5, subscribe[2], subscribe[3], 0, 1, 1);
        await starting.WithinDeadline();

        leaseBroker.Dispose();
        await receiver.StopAsync(CancellationToken.None).WithinDeadline();
        broker.Dispose();
        await Until.TrueAsync(() => transport.Fault is not null && _time.NextDue <= options.ReconnectDelay);
        var publishing = transport.PublishManyAsync(new[] { new MqttMessage("topic", "x"u8.ToArray()) });
        _time.AdvanceToNextTimer();
        using var again = await _broker.WelcomeAsync();
        var packetId = await ReadPublishAsync(again);
        await again.WriteAsync(0x40, 2, (byte)(packetId >> 8), (byte)packetId);

        Assert.True((await publishing.AsTask().WithinDeadline()).IsSuccess);
    }

    [Fact]
    public async Task Whoever_asks_a_claim_that_ends_or_has_ended_is_told_that_it_is_not_leased()
    {
        var claim = Create();
        var (starting, broker) = await StartAsync(claim);
        await AcceptAsync(broker);
        await starting.WithinDeadline();

        var asking = claim.AskAsync();
        await EndAsync(claim, broker);

        Assert.Contains("not leased", await asking.WithinDeadline(), StringComparison.Ordinal);
        Assert.Contains("not leased", await claim.AskAsync().WithinDeadline(), StringComparison.Ordinal);
    }

    private NodeClaim Create() => Create(Long);

    private NodeClaim Create(TimeSpan keepAlive) => new(Options(keepAlive), Number, _time, new GuardedLogger(_log));

    private MqttOptions Options(TimeSpan keepAlive)
    {
        var options = ConnectionSome.Options(_broker);
        (options.EnvelopePrefix, options.KeepAlive, options.ConnectTimeout) = ("frames", keepAlive, Long);
        return options;
    }

    private async Task<(Task<bool> Starting, FakeBrokerConnection Broker)> StartAsync(NodeClaim claim)
    {
        var starting = claim.StartAsync(CancellationToken.None);
        return (starting, await _broker.WelcomeAsync());
    }

    private static async Task AnswerAsync(FakeBrokerConnection broker, bool isTaken)
    {
        await SubscribeAsync(broker);
        await broker.WriteAsync([.. isTaken ? Claim(OtherTopic, Other, isRetained: true) : [], .. Suback]);
        await PassOnAsync(broker);
    }

    private static async Task<(string Topic, string Claim)> AcceptAsync(FakeBrokerConnection broker)
    {
        await SubscribeAsync(broker);
        await broker.WriteAsync(Suback);
        return await PassOnAsync(broker);
    }

    // Passes the claim on to the one who made it.
    private static async Task<(string Topic, string Claim)> PassOnAsync(FakeBrokerConnection broker)
    {
        var publish = Parse(await broker.ReadAsync());
        var (topic, claim) = (Encoding.UTF8.GetString(publish.Topic), Encoding.UTF8.GetString(publish.Payload));
        await broker.WriteAsync(Claim(topic, claim, isRetained: false));
        return (topic, claim);
    }

    // The packet id of the next message. Pings and subscriptions come too.
    private static async Task<ushort> ReadPublishAsync(FakeBrokerConnection broker)
    {
        var packet = await broker.ReadAsync();
        while ((PacketType)(packet[0] >> 4) != PacketType.Publish)
            packet = await broker.ReadAsync();
        return Parse(packet).PacketId;
    }

    private static ReceivedPublish Parse(byte[] packet)
    {
        Assert.True(PacketHeader.TryRead(packet, maxPacketBytes: 1000, out var header, out var headerBytes));
        return PublishPacket.Read(header, packet.AsSpan(headerBytes), MqttVersion.V5);
    }

    private static async Task SubscribeAsync(FakeBrokerConnection broker) => Assert.Equal(PacketType.Subscribe, (PacketType)((await broker.ReadAsync())[0] >> 4));

    private static byte[] Claim(string topic, string holder, bool isRetained)
    {
        var fields = new PublishFields { Topic = topic, Payload = Encoding.UTF8.GetBytes(holder), Retain = isRetained };
        var packet = new byte[PublishPacket.Measure(fields, MqttVersion.V5)];
        PublishPacket.Write(packet, fields, MqttVersion.V5, packetId: 0, isDuplicate: false);
        return packet;
    }

    private static async Task EndAsync(NodeClaim claim, FakeBrokerConnection broker)
    {
        broker.Dispose();
        await claim.DisposeAsync().AsTask().WithinDeadline();
    }
}
