using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Connections;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Receiving;

/// <summary>Messages of QoS 2 over a shared connection, which is lost while the next hop has one of them.</summary>
public sealed class SharedConnectionTests : IDisposable
{
    private readonly FakeBroker _broker = new();
    private readonly CollectingTransport _arrived = new();

    public void Dispose() => _broker.Dispose();

    [Theory]
    [InlineData(true, null, new[] { "first", "last" })]
    [InlineData(false, null, new[] { "first", "second", "last" })]
    [InlineData(true, "frames", new[] { "first", "last" })]
    [InlineData(false, "frames", new[] { "first", "second", "last" })]
    public async Task A_resumed_session_repeats_none_and_a_new_one_loses_none(bool isResumed, string? envelopePrefix, string[] texts)
    {
        var next = new ScriptedTransport(_arrived);
        var stalled = next.Stall();
        var options = ConnectionSome.Options(_broker);
        (options.SharesConnection, options.ClientId, options.EnvelopePrefix, options.ReconnectDelay) = (true, "some", envelopePrefix, TimeSpan.FromMilliseconds(10));
        if (envelopePrefix is null)
            options.Subscriptions.Add(new MqttSubscription { Filter = "t" });
        await using var transport = new MqttTransport(options);
        await using var receiver = new MqttReceiver(transport, node: 1, new BatchReceiver(next));
        _ = receiver.StartAsync(CancellationToken.None);

        using (var before = await SubscribedAsync(isResumed))
        {
            await before.WriteAsync(Message(7, "first", envelopePrefix));
            await stalled.EnteredAsync();
        }

        using var after = await SubscribedAsync(isResumed);
        if (!isResumed)
        {
            stalled.Release();
            await Until.TrueAsync(() => _arrived.MessageCount == 1);
        }

        // The answer comes behind the messages, so they have been read when it has.
        await after.WriteAsync([.. Message(7, isResumed ? "first" : "second", envelopePrefix), .. Message(8, "last", envelopePrefix), .. Suback(envelopePrefix is null ? 1 : 2)]);
        await Until.TrueAsync(() => receiver.Fault is null);
        if (isResumed)
            stalled.Release();

        await Until.TrueAsync(() => _arrived.Texts.Contains("last"));
        Assert.Equal(texts, _arrived.Texts);
    }

    private static byte[] Suback(int subscriptions) => [0x90, (byte)(3 + subscriptions), 0, 1, 0, .. Enumerable.Repeat((byte)1, subscriptions)];

    private static byte[] Message(ushort packetId, string text, string? envelopePrefix)
    {
        using var frame = PooledFrame.Encode([Some.Batch(OutputHandle.Named("room"), Some.Producer(), 1, text)], signer: null);
        var fields = new PublishFields
        {
            Topic = envelopePrefix is null ? "t" : $"{envelopePrefix}/all",
            Payload = envelopePrefix is null ? Some.Bytes(text) : frame.Bytes.ToArray(),
            QualityOfService = MqttQualityOfService.ExactlyOnce,
        };
        var packet = new byte[PublishPacket.Measure(fields, MqttVersion.V5)];
        PublishPacket.Write(packet, fields, MqttVersion.V5, packetId, isDuplicate: false);
        return packet;
    }

    private async Task<FakeBrokerConnection> SubscribedAsync(bool isSessionPresent)
    {
        var client = await _broker.AcceptAsync();
        await client.ReadAsync();
        await client.WriteAsync(0x20, 3, (byte)(isSessionPresent ? 1 : 0), 0, 0);
        await client.ReadAsync();
        return client;
    }
}
