using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using static BatchKit.IntegrationTests.Mqtt.MqttEnds;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What receivers hold that share a subscription: each message goes to one of them.</summary>
public sealed class MqttSharedSubscriptionTests(MosquittoFixture fixture)
{
    private const int Lines = 300;

    private readonly CollectingTransport _arrived = new();
    private readonly CollectingTransport _other = new();
    private readonly string _topic = Some.Name("topic");

    [Fact]
    public async Task Each_sharer_gets_its_messages_of_a_publisher_in_order_and_no_message_of_another()
    {
        var server = await fixture.GetAsync();
        await using var first = await StartAsync(Shared(server.Address), _arrived);
        await using var second = await StartAsync(Shared(server.Address), _other);

        await PublishAsync(server, start: 0);
        await Until.TrueAsync(() => _arrived.MessageCount + _other.MessageCount >= Lines);

        Assert.Equal(Numbers(_arrived).Order(), Numbers(_arrived));
        Assert.Equal(Numbers(_other).Order(), Numbers(_other));
        Assert.Equal(Enumerable.Range(0, Lines), Numbers(_arrived).Concat(Numbers(_other)).Order());
    }

    [Fact]
    public async Task What_the_broker_gave_to_a_sharer_that_was_killed_waits_for_its_client_id()
    {
        var server = await fixture.GetAsync();
        var clientId = Some.Name("sharer");
        await using var living = await StartAsync(Shared(server.Address), _other);
        var proxy = TcpProxy.Start(server.Host, server.Port);
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        var killed = await StartAsync(Shared(new Uri($"mqtt://127.0.0.1:{proxy.Port}"), clientId), slow);
        await PublishAsync(server, start: 0);
        await stalled.EnteredAsync();

        // No goodbye reaches the broker, as when a process is killed.
        await proxy.DisposeAsync();
        await killed.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();
        await PublishAsync(server, start: Lines);
        await using var next = await StartAsync(Shared(server.Address, clientId), _arrived);
        await Until.TrueAsync(() => Numbers(_arrived).Concat(Numbers(_other)).Distinct().Count() == 2 * Lines);

        Assert.Empty(Numbers(_arrived).Intersect(Numbers(_other)));
        Assert.Equal(Numbers(_arrived).Distinct().Order(), Numbers(_arrived).Distinct());
    }

    [Fact]
    public async Task A_sharer_whose_session_ends_with_its_connection_gets_no_more_messages_once_it_is_gone()
    {
        var server = await fixture.GetAsync();
        await using var living = await StartAsync(Shared(server.Address), _other);
        var leaving = await StartAsync(Shared(server.Address, configure: static options => options.SessionExpiry = TimeSpan.Zero), _arrived);
        await PublishAsync(server, start: 0);
        await Until.TrueAsync(() => _arrived.MessageCount + _other.MessageCount >= Lines);
        var before = _other.MessageCount;

        await leaving.DisposeAsync();
        await PublishAsync(server, start: Lines);
        await _other.WaitForMessagesAsync(before + Lines);

        Assert.Equal(Enumerable.Range(Lines, Lines), Numbers(_other).Where(static number => number >= Lines));
    }

    private static int[] Numbers(CollectingTransport arrived) => [.. arrived.Texts.Select(text => int.Parse(text["line ".Length..], System.Globalization.CultureInfo.InvariantCulture))];

    private static async Task PublishLinesAsync(MqttTransport transport, string topic, int start) =>
        Assert.True((await transport.PublishManyAsync(Some.Lines(Lines, start).Select(line => new MqttMessage(topic, Some.Bytes(line))).ToArray()).WithinDeadline()).IsSuccess);

    private async Task PublishAsync(MosquittoServer server, int start)
    {
        await using var transport = new MqttTransport(MqttSome.Options(server));
        await PublishLinesAsync(transport, $"{_topic}/a", start);
    }

    private MqttOptions Shared(Uri address, string? clientId = null, Action<MqttOptions>? configure = null) => MqttSome.Options(address, options =>
    {
        options.ClientId = clientId ?? Some.Name("sharer");
        options.Subscriptions.Add(new MqttSubscription { Filter = $"$share/workers/{_topic}/#" });
        configure?.Invoke(options);
    });
}
