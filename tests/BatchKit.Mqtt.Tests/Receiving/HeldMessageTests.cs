using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Connections;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Receiving;

/// <summary>What a receiver tells of a next hop that keeps a message for long.</summary>
public sealed class HeldMessageTests : IDisposable
{
    private readonly FakeBroker _broker = new();
    private readonly ManualTimeProvider _time = new();
    private readonly CollectingTransport _arrived = new();

    public void Dispose() => _broker.Dispose();

    [Theory]
    [InlineData(false, null)]
    [InlineData(false, "frames")]
    [InlineData(true, null)]
    [InlineData(true, "frames")]
    public async Task A_message_that_the_next_hop_has_for_ten_seconds_is_the_fault_until_it_has_taken_it(bool isShared, string? envelopePrefix)
    {
        var next = new ScriptedTransport(_arrived);
        var stalled = next.Stall();
        var options = Options(isShared, envelopePrefix);
        await using var transport = isShared ? new MqttTransport(options, _time) : null;
        await using var receiver = transport is null
            ? new MqttReceiver(options, node: 1, new BatchReceiver(next), _time)
            : new MqttReceiver(transport, node: 1, new BatchReceiver(next), _time);
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await SubscribedAsync(receiver, subscriptions: envelopePrefix is null ? 1 : 2);
        await starting.WithinDeadline();

        await broker.WriteAsync(Message(envelopePrefix));
        await stalled.EnteredAsync();
        // It watches a moment after the next hop has begun, and nothing else is due so soon.
        await Until.TrueAsync(() => _time.NextDue <= TimeSpan.FromSeconds(10));
        var faultBefore = receiver.Fault;
        _time.Advance(TimeSpan.FromSeconds(10));
        await Until.TrueAsync(() => receiver.Fault?.Contains("has had a frame for longer than 00:00:10", StringComparison.Ordinal) == true);
        stalled.Release();

        await Until.TrueAsync(() => receiver.Fault is null);
        Assert.Null(faultBefore);
        Assert.Equal(1, _arrived.MessageCount);
    }

    private static byte[] Message(string? envelopePrefix)
    {
        if (envelopePrefix is null)
            return ConnectionSome.Publish(1);
        using var frame = PooledFrame.Encode([Some.Batch(OutputHandle.Named("room"), Some.Producer(), 1, "a")], signer: null);
        var fields = new PublishFields { Topic = $"{envelopePrefix}/all", Payload = frame.Bytes.ToArray() };
        var packet = new byte[PublishPacket.Measure(fields, MqttVersion.V5)];
        PublishPacket.Write(packet, fields, MqttVersion.V5, packetId: 0, isDuplicate: false);
        return packet;
    }

    private MqttOptions Options(bool isShared, string? envelopePrefix)
    {
        var options = ConnectionSome.Options(_broker);
        (options.SharesConnection, options.ClientId, options.EnvelopePrefix, options.KeepAlive) = (isShared, "some", envelopePrefix, TimeSpan.FromMinutes(10));
        if (envelopePrefix is null)
            options.Subscriptions.Add(new MqttSubscription { Filter = "t" });
        return options;
    }

    private async Task<FakeBrokerConnection> SubscribedAsync(MqttReceiver receiver, int subscriptions)
    {
        var broker = await _broker.WelcomeAsync();
        var subscribe = await broker.ReadAsync();
        await broker.WriteAsync([0x90, (byte)(3 + subscriptions), subscribe[2], subscribe[3], 0, .. Enumerable.Repeat((byte)1, subscriptions)]);
        await Until.TrueAsync(() => receiver.Fault is null);
        return broker;
    }
}
