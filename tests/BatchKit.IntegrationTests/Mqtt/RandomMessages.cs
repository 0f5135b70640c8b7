using BatchKit.Mqtt;

namespace BatchKit.IntegrationTests.Mqtt;

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
