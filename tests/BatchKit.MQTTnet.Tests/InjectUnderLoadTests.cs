using System.Globalization;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests;

/// <summary>The server keeps references to payloads and lists of properties; were one of them used again, a message would carry another's content or a wrong length.</summary>
[Trait("Lane", "night: a load lasts for seconds")]
public sealed class InjectUnderLoadTests
{
    private const int Messages = 100_000;
    private const int Topics = 50;
    private const int OwnMessages = 20_000;
    private const int Writers = 2;

    [Fact]
    public async Task Of_100_000_messages_with_distinct_contents_none_is_corrupted()
    {
        await using var server = await TestServer.StartAsync();
        using var host = MakeHost(server);
        await host.StartAsync().WithinDeadline();
        var subscribers = new List<Subscriber>();
        foreach (var filter in (string[])["#", "topic/+", "topic/#"])
            subscribers.Add(await Subscriber.StartAsync(server, filter));
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        await Task.WhenAll(Enumerable.Range(0, Writers).Select(writer => Task.Run(() => WriteAsync(output, writer)))).WaitAsync(TimeSpan.FromMinutes(2));
        await output.FlushAsync().AsTask().WaitAsync(TimeSpan.FromMinutes(1));
        foreach (var subscriber in subscribers)
            await subscriber.WaitForMessagesAsync(Messages);
        await host.StopAsync().WithinDeadline();

        Assert.All(subscribers, subscriber => Assert.DoesNotContain(subscriber.Messages, IsCorrupted));
        Assert.All(subscribers, subscriber => Assert.Equal(Messages, subscriber.Texts.Distinct().Count()));
        Assert.Equal(0, host.Services.GetRequiredService<MqttServerTransport>().GetStatistics().DroppedMessages);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Own_messages_for_20_000_topics_arrive_with_the_payload_and_properties_that_were_given(bool isInjected)
    {
        await using var server = await TestServer.StartAsync(static options => options.WithMaxPendingMessagesPerClient(OwnMessages), new BatchedWriteServerAdapter());
        var subscriber = await Subscriber.StartAsync(server, "#", MqttQualityOfServiceLevel.AtLeastOnce);
        MqttApplicationMessage[] messages = [.. Enumerable.Range(0, OwnMessages).Select(MakeOwn)];

        if (isInjected)
            Assert.True((await server.Server.InjectManyAsync(messages).AsTask().WithinDeadline()).Messages.IsSuccess);
        else
            Assert.True((await (await server.ConnectAsync(new BatchedWriteClientAdapterFactory())).PublishManyAsync(messages).AsTask().WithinDeadline()).IsSuccess);
        await subscriber.WaitForMessagesAsync(OwnMessages);

        Assert.Equal(messages.Select(static message => message.Topic), subscriber.Messages.Select(static message => message.Topic));
        Assert.All(subscriber.Messages.Index(), static arrived =>
        {
            Assert.Equal(TextOf(arrived.Index), arrived.Item.Text);
            Assert.Equal([ShownOf(arrived.Index, 0), ShownOf(arrived.Index, 1)], arrived.Item.Properties);
        });
    }

    private static MqttApplicationMessage MakeOwn(int number) => new()
    {
        Topic = $"topic/{number}",
        PayloadSegment = Some.Bytes(TextOf(number)),
        QualityOfServiceLevel = MqttQualityOfServiceLevel.AtLeastOnce,
        Retain = true,
        UserProperties = [.. Enumerable.Range(0, 2).Select(place => PropertyOf(number, place)).Select(static property => UserProperty.Create(property.Key, property.Value))],
    };

    private static string ShownOf(int number, int place)
    {
        var property = PropertyOf(number, place);
        return $"{property.Key} = {property.Value}";
    }

    private static IHost MakeHost(TestServer server)
    {
        var builder = Host.CreateEmptyApplicationBuilder(null);
        builder.Services.AddBatchKit(options => options.SendTimeout = TimeSpan.FromMinutes(2))
            .UseMqttServer(_ => server.Server, options => options.SlowSubscriberTimeout = TimeSpan.FromMinutes(1));
        builder.Services.AddSingleton(services => services.GetRequiredKeyedService<MqttServerTransport>(""));
        return builder.Build();
    }

    private static async Task WriteAsync(IOutputBuffer output, int writer)
    {
        for (var start = writer; start < Messages; start += Writers * 100)
        {
            for (var index = 0; index < 100 && start + (index * Writers) < Messages; index++)
            {
                var number = start + (index * Writers);
                await output.WriteAsync(OutputHandle.Named(TopicOf(number)), Some.Bytes(TextOf(number)), new MessageHeader { Properties = [.. Enumerable.Range(0, 5).Select(place => PropertyOf(number, place))] });
            }
        }
    }

    private static bool IsCorrupted(ArrivedMessage message)
    {
        var number = int.Parse(message.Text.AsSpan(0, message.Text.IndexOf(' ', StringComparison.Ordinal)), CultureInfo.InvariantCulture);
        return message.Topic != TopicOf(number) || message.Text != TextOf(number)
            || !message.Properties.SequenceEqual(Enumerable.Range(0, 5).Select(place => PropertyOf(number, place)).Select(property => $"{property.Key} = {property.Value}"));
    }

    private static string TopicOf(int number) => $"topic/{number % Topics}";

    // Lengths differ too.
    private static string TextOf(int number) => $"{number} {new string((char)('a' + (number % 26)), number % 97)}";

    private static KeyValuePair<string, string> PropertyOf(int number, int place) => new($"name{place}-{number % 7}", $"{number}-{new string((char)('A' + place), (number + place) % 13)}");
}
