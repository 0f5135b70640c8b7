using BatchKit.IntegrationTests.Mqtt;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.Hostile;

/// <summary>What MQTT alone has names for: clients, users, topics and filters.</summary>
public sealed class HostileMqttNameTests(MosquittoFixture fixture)
{
    [Theory]
    [InlineData(nameof(MqttOptions.ClientId))]
    [InlineData(nameof(MqttOptions.UserName))]
    [InlineData(nameof(MqttOptions.Password))]
    public async Task A_name_of_a_client_is_refused_by_its_setting_or_works(string setting)
    {
        var server = await fixture.GetAsync();
        var (refused, worked) = (0, 0);

        foreach (var name in HostileNames.Create())
        {
            var arrived = new CollectingTransport();
            var options = MqttSome.Envelope(server, options => Set(options, setting, name));
            try
            {
                await using var receiver = await MqttEnds.MakeAsync(options, arrived);
                await using var transport = new MqttTransport(options);
                await MqttEnds.SendLinesAsync(transport, Some.Connection(MqttEnds.Node), count: 3);
                await arrived.WaitForMessagesAsync(3);
                Assert.Equal(Some.Lines(3), arrived.Texts);
                worked++;
            }
            catch (OptionsValidationException refusal)
            {
                Assert.Contains(setting, refusal.Message, StringComparison.Ordinal);
                refused++;
            }
        }

        // A password is binary data.
        Assert.True(worked > 0 && (refused > 0 || setting == nameof(MqttOptions.Password)), $"{refused} refused, {worked} worked");
    }

    [Fact]
    public async Task A_topic_and_its_filter_are_refused_alone_or_work()
    {
        var server = await fixture.GetAsync();
        var root = Some.Name("hostile");
        var arrived = new CollectingTransport();
        await using var receiver = await MqttEnds.StartAsync(MqttSome.Below(server, root), arrived);
        await using var transport = new MqttTransport(MqttSome.Options(server));
        var (producer, number, expected) = (Some.Producer(), 0, new List<string>());

        foreach (var topic in HostileNames.Create().Select(name => $"{root}/{name}"))
        {
            var isNamed = TryName(topic, out var handle);
            var isFilter = IsFilter(server.Address, topic);
            if (!isNamed)
            {
                Assert.False(isFilter);
                continue;
            }

            var sent = await TrySendAsync(transport, Some.Batch(handle, producer, ++number, topic));
            Assert.True(isFilter || !sent, $"'{topic}' is a topic, and is refused as a filter.");
            if (sent)
                expected.Add(topic);
        }

        await arrived.WaitForMessagesAsync(expected.Count);
        Assert.Equal(expected, arrived.Messages.Select(static message => message.Handle.Name));
        Assert.Equal(expected, arrived.Texts);
    }

    private static void Set(MqttOptions options, string setting, string name)
    {
        if (setting == nameof(MqttOptions.ClientId))
            options.ClientId = name;
        else
            (options.UserName, options.Password) = setting == nameof(MqttOptions.UserName) ? (name, "password") : ("user", name);
    }

    private static bool TryName(string topic, out OutputHandle handle)
    {
        handle = default;
        try
        {
            handle = OutputHandle.Named(topic);
            return true;
        }
        catch (ArgumentException refusal)
        {
            Assert.Contains("name", refusal.Message, StringComparison.Ordinal);
            return false;
        }
    }

    private static bool IsFilter(Uri server, string topic)
    {
        try
        {
            var options = MqttSome.Options(server, options => options.Subscriptions.Add(new MqttSubscription { Filter = topic }));
            _ = new MqttReceiver(options, MqttEnds.Node, new BatchReceiver(new CollectingTransport()));
            return true;
        }
        catch (OptionsValidationException refusal)
        {
            Assert.Contains(nameof(MqttOptions.Subscriptions), refusal.Message, StringComparison.Ordinal);
            return false;
        }
    }

    private static async Task<bool> TrySendAsync(MqttTransport transport, MessageBatch batch)
    {
        try
        {
            await transport.SendAsync(new[] { batch }, CancellationToken.None).WithinDeadline();
            return true;
        }
        catch (BatchSendException refusal)
        {
            Assert.Equal([BatchOutcome.Refused], refusal.Outcomes);
            Assert.Contains("topic", refusal.Message, StringComparison.Ordinal);
            return false;
        }
    }
}
