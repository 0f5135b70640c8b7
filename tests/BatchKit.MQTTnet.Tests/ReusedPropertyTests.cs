using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet.Tests;

/// <summary>Lists of user properties that their caller reuses as soon as its call has ended, as one that pools them does.</summary>
public sealed class ReusedPropertyTests : MosquittoTest
{
    // With their payloads, more than the sockets hold: most are not encoded while nothing is forwarded.
    private const int Count = 300;
    private const int PayloadBytes = 64 * 1024;

    private protected override MosquittoServerOptions ServerOptions { get; } = new() { MaxInflight = Count, MaxQueued = 100_000 };

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task After_a_cancelled_call_no_message_has_what_its_list_holds_then(bool isBatched)
    {
        var subscriber = new Subscriber(await ConnectAsync(Server.Port, isBatched: false));
        await subscriber.SubscribeAsync("#");
        await using var proxy = TcpProxy.Start(Server.Host, Server.Port);
        var client = await ConnectAsync(proxy.Port, isBatched);
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { ReceiveMaximum = Count });
        var messages = Enumerable.Range(0, Count).Select(static _ => Messages.One("topic", new string('x', PayloadBytes), properties: [Owner("its own")])).ToArray();
        using var cancellation = new CancellationTokenSource();

        proxy.Stall();
        var publishing = transport.PublishManyAsync(messages, cancellation.Token).AsTask();
        await Until.TrueAsync(() => transport.InFlightMessages == Count);
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => publishing.WithinDeadline());
        foreach (var message in messages)
        {
            message.UserProperties.Clear();
            message.UserProperties.Add(Owner("someone else"));
        }

        proxy.Resume();
        await subscriber.WaitForMessagesAsync(Count);

        Assert.All(subscriber.Messages, static message => Assert.Equal([Owner("its own").ToString()], message.Properties));
    }

    [Fact]
    public async Task A_message_of_a_call_that_can_be_cancelled_is_published_as_it_is_without_its_subscription_identifiers()
    {
        var client = new ScriptedClient { Answer = static _ => Task.FromResult(ScriptedPublish.Result(MqttClientPublishReasonCode.Success)) };
        using var transport = new MqttClientTransport(client);
        var message = Messages.One("topic", "text", quality: 2, retain: true, properties: [Owner("its own")]);
        (message.ContentType, message.ResponseTopic, message.CorrelationData) = ("text/plain", "answers", "id"u8.ToArray());
        (message.MessageExpiryInterval, message.TopicAlias, message.Dup) = (7, 3, true);
        (message.PayloadFormatIndicator, message.SubscriptionIdentifiers) = (global::MQTTnet.Protocol.MqttPayloadFormatIndicator.CharacterData, [9]);
        using var cancellation = new CancellationTokenSource();

        Assert.True((await transport.PublishManyAsync(new[] { message }, cancellation.Token)).IsSuccess);

        var published = Assert.Single(client.Publishes).Message;
        var properties = typeof(MqttApplicationMessage).GetProperties().Where(static property => property.CanRead).ToArray();
        Assert.Empty(published.SubscriptionIdentifiers ?? []);
        Assert.All(properties.Where(static property => property.Name != nameof(message.SubscriptionIdentifiers)), property => Assert.Equal(property.GetValue(message), property.GetValue(published)));
        Assert.All(properties.Where(static property => property.CanWrite), property => Assert.NotEqual(property.GetValue(new MqttApplicationMessage()), property.GetValue(message)));
        Assert.NotSame(message.UserProperties, published.UserProperties);
    }

    private static MqttUserProperty Owner(string name) => new("owner", System.Text.Encoding.UTF8.GetBytes(name));

    private async Task<IMqttClient> ConnectAsync(int port, bool isBatched)
    {
        var client = MakeClient(isBatched);
        var options = new MqttClientOptionsBuilder().WithProtocolVersion(MqttProtocolVersion.V500).WithClientId(Some.Name("client")).WithTcpServer(Server.Host, port).WithTimeout(Deadline.Time);
        await client.ConnectAsync(options.Build()).WithinDeadline();
        return client;
    }
}
