using System.Text;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet.Tests;

/// <summary>One byte below, at and above each limit: accepted up to it, and refused above it without an end of the connection.</summary>
public sealed class LimitTests
{
    private const int MaxTextBytes = 65_535;
    private const int MaxPacketBytes = 2000;

    // What the transport allows for besides the topic and the payload.
    private const int OverheadBytes = 32;

    public static TheoryData<string, Action<MqttApplicationMessage, int>> Texts => new()
    {
        { "The topic", (message, length) => message.Topic = new string('x', length) },
        { "The content type", (message, length) => message.ContentType = new string('x', length) },
        { "The response topic", (message, length) => message.ResponseTopic = new string('x', length) },
        { "The correlation data", (message, length) => message.CorrelationData = new byte[length] },
        { "The property's name", (message, length) => message.UserProperties = [new MqttUserProperty(new string('x', length), "v"u8.ToArray())] },
        { "The value of the property", (message, length) => message.UserProperties = [new MqttUserProperty("n", Encoding.UTF8.GetBytes(new string('x', length)))] },
    };

    [Theory]
    [MemberData(nameof(Texts))]
    public async Task Each_text_of_a_message_has_up_to_65_535_bytes_published_and_injected(string part, Action<MqttApplicationMessage, int> set)
    {
        await using var server = await TestServer.StartAsync();
        var subscriber = await Subscriber.StartAsync(server);
        var client = await server.ConnectAsync();
        using var transport = new MqttServerTransport(server.Server);

        var published = await client.PublishManyAsync(Around(set)).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(3);
        var injected = await transport.InjectManyAsync(Around(set)).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(6);

        AssertOnlyTheThirdIsRefused(published, part);
        AssertOnlyTheThirdIsRefused(injected.Messages, part);
        Assert.Equal(["-1", "0", "last", "-1", "0", "last"], subscriber.Texts);
        Assert.True(client.IsConnected);
    }

    [Fact]
    public async Task A_packet_has_up_to_the_bytes_that_the_broker_accepts()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Lines = [$"max_packet_size {MaxPacketBytes}"] });
        using var client = new MqttClientFactory().CreateMqttClient();
        using var transport = new MqttClientTransport(client);
        await client.ConnectAsync(new MqttClientOptionsBuilder().WithProtocolVersion(MqttProtocolVersion.V500).WithTcpServer(server.Host, server.Port).Build()).WithinDeadline();
        var room = MaxPacketBytes - OverheadBytes - "limit".Length;

        var report = await transport.PublishManyAsync((MqttApplicationMessage[])[Sized(room - 1), Sized(room), Sized(room + 1), Sized(1)]).AsTask().WithinDeadline();

        AssertOnlyTheThirdIsRefused(report, "A message");
        Assert.Equal($"A message needs a packet of up to {MaxPacketBytes + 1} bytes; the broker accepts at most {MaxPacketBytes}.", report[2].Reason);
        Assert.True(client.IsConnected);
    }

    private static void AssertOnlyTheThirdIsRefused(PublishManyReport report, string part)
    {
        PublishManyOutcome[] outcomes = [.. Enumerable.Range(0, report.Count).Select(index => report[index].Outcome)];
        Assert.Equal([PublishManyOutcome.Succeeded, PublishManyOutcome.Succeeded, PublishManyOutcome.Refused, PublishManyOutcome.Succeeded], outcomes);
        Assert.StartsWith(part, report[2].Reason, StringComparison.Ordinal);
    }

    private static MqttApplicationMessage Sized(int bytes) => Messages.One("limit", new string('x', bytes));

    // One below the limit, at it and above it, and one that is plain.
    private static MqttApplicationMessage[] Around(Action<MqttApplicationMessage, int> set)
    {
        var messages = Array.ConvertAll([-1, 0, 1], above =>
        {
            var message = Messages.One("limit", $"{above}");
            set(message, MaxTextBytes + above);
            return message;
        });
        return [.. messages, Messages.One("limit", "last")];
    }
}
