using BatchKit.Mqtt;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What was published is what a client that is not ours sees.</summary>
public sealed class PublishedMessageTests(ITestOutputHelper output)
{
    private const int Messages = 10_000;

    // How long a message may wait at the broker, which takes it off the expiry.
    private const long MaxSecondsTakenOff = 120;

    [Theory]
    [InlineData(MqttVersion.V5, "mqttv5")]
    [InlineData(MqttVersion.V311, "mqttv311")]
    [Trait("Lane", "slow: many random inputs")]
    public async Task Ten_thousand_random_messages_are_what_mosquitto_sub_shows(MqttVersion version, string option)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var messages = new RandomMessages(new Random(seed)).Make(Messages);
        // Mosquitto would drop what its queue has no room for.
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Persistence = false, NoDelay = true, MaxQueued = 0 });
        string[] retained = version == MqttVersion.V5 ? ["--retain-as-published"] : [];
        var showing = MosquittoProgram.SubscribeAsync(
            server, ["-V", option, "-q", "1", "-t", "t/#", .. retained, "-F", ShownMessage.Format, "-C", $"{Messages + 1}", "-W", "50"]);
        await WaitForSubscriberAsync(server);

        await using (var transport = new MqttTransport(new MqttOptions { Server = server.Address, Version = version, MaxTopicAliases = 10 }))
        {
            var report = await transport.PublishManyAsync(messages).WithinDeadline();
            Assert.True(report.IsSuccess);
        }

        var lines = (await showing).Split('\n', StringSplitOptions.RemoveEmptyEntries);
        AssertSame(messages, lines[1..], version);
    }

    /// <summary>Publishes to the subscriber until the broker says that there is one, who then sees that one message.</summary>
    private static async Task WaitForSubscriberAsync(MosquittoServer server)
    {
        await using var transport = new MqttTransport(new MqttOptions { Server = server.Address });
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while ((await transport.PublishManyAsync(new[] { new MqttMessage("t/-1", default) }, deadline.Token))[0].ReasonCode == MqttReasonCode.NoMatchingSubscribers)
            deadline.Token.ThrowIfCancellationRequested();
    }

    private static void AssertSame(MqttMessage[] messages, string[] lines, MqttVersion version)
    {
        Assert.Equal(messages.Length, lines.Length);
        var shown = lines.Select(ShownMessage.Parse).ToDictionary(static message => message.Number);
        for (var number = 0; number < messages.Length; number++)
        {
            var expected = ShownMessage.Of(messages[number], number, version);
            Assert.Equal(expected.Text, shown[number].Text);
            Assert.Equal(expected.Expiry is null, shown[number].Expiry is null);
            if (expected.Expiry is { } expiry)
                Assert.InRange(shown[number].Expiry!.Value, expiry - MaxSecondsTakenOff, expiry);
        }
    }
}

/// <summary>Makes random messages, each for a topic of its own that ends in its number.</summary>
internal sealed class RandomMessages(Random random)
{
    // What mosquitto_sub could not show as it is (a NUL in a text, a line's end in correlation data) no text here has; payloads have every byte.
    private static readonly string[] Pieces = ["a", "Z", "0", " ", "/", "'", "\"", "\\", "%j", "~", "é", "ß", "€", "中", "\uFEFF", "\uFFFD", "😀"];

    public MqttMessage[] Make(int count) => [.. Enumerable.Range(0, count).Select(MakeOne)];

    private MqttMessage MakeOne(int number) => new($"t/{Text()}/{number}", Bytes())
    {
        QualityOfService = (MqttQualityOfService)random.Next(2),
        Retain = random.Next(4) == 0,
        // Long enough that what the broker takes off it while the message waits can be told from another value.
        Expiry = random.Next(2) == 0 ? null : TimeSpan.FromSeconds(1000 * (long)random.Next(1, 1_000_000)),
        UserProperties = Enumerable.Range(0, random.Next(6)).Select(_ => new KeyValuePair<string, string>(Text(), Text())).ToArray(),
        ContentType = random.Next(2) == 0 ? null : $"type {Text()}",
        ResponseTopic = random.Next(2) == 0 ? null : $"answer {Text()}",
        CorrelationData = random.Next(2) == 0 ? default : System.Text.Encoding.UTF8.GetBytes($"correlation {Text()}"),
    };

    private string Text() => string.Concat(random.GetItems(Pieces, random.Next(random.Next(8) == 0 ? 60 : 10)));

    private byte[] Bytes()
    {
        var bytes = new byte[random.Next(random.Next(8) == 0 ? 600 : 100)];
        random.NextBytes(bytes);
        return bytes;
    }
}
