using System.Globalization;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.MQTTnet.Tests;

/// <summary>The server keeps references to payloads and lists of properties; were one of them used again, a message would carry another's content or a wrong length.</summary>
[Trait("Lane", "slow: a load lasts for seconds")]
public sealed class InjectUnderLoadTests
{
    private const int Messages = 100_000;
    private const int Topics = 50;
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
