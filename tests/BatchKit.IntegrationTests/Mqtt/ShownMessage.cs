using System.Globalization;
using System.Text;
using System.Text.Json;
using BatchKit.Mqtt;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A message as <c>mosquitto_sub</c> shows it, or as it should be shown.</summary>
internal sealed record ShownMessage(int Number, string Text, long? Expiry)
{
    /// <summary>What mosquitto_sub is to write: all of the message as JSON, then its payload once more, in hexadecimal, because JSON holds no bytes.</summary>
    public const string Format = "%j %x";

    public static ShownMessage Parse(string line)
    {
        var payload = line.LastIndexOf(' ');
        using var document = JsonDocument.Parse(line.AsMemory(0, payload));
        var message = document.RootElement;
        var topic = message.GetProperty("topic").GetString()!;
        var shown = new StringBuilder()
            .Append(CultureInfo.InvariantCulture, $"topic {topic}, QoS {message.GetProperty("qos").GetInt32()}, retain {message.GetProperty("retain").GetInt32()}, payload {line[(payload + 1)..]}");
        long? expiry = null;
        if (message.TryGetProperty("properties", out var properties))
        {
            foreach (var property in properties.EnumerateObject().Where(static property => property.Name != "message-expiry-interval").OrderBy(static property => property.Name))
                shown.Append(CultureInfo.InvariantCulture, $", {property.Name} {Show(property.Value)}");
            if (properties.TryGetProperty("message-expiry-interval", out var seconds))
                expiry = seconds.GetInt64();
        }

        return new ShownMessage(int.Parse(topic[(topic.LastIndexOf('/') + 1)..], CultureInfo.InvariantCulture), shown.ToString(), expiry);
    }

    public static ShownMessage Of(MqttMessage message, int number, MqttVersion version)
    {
        // With 3.1.1 a subscriber who was there before never sees that a message is retained (section 3.3.1.3).
        var isRetained = message.Retain == true && version == MqttVersion.V5;
        var shown = new StringBuilder()
            .Append(CultureInfo.InvariantCulture, $"topic {message.Topic}, QoS {(int)message.QualityOfService!}, retain {(isRetained ? 1 : 0)}, payload {Convert.ToHexStringLower(message.Payload.Span)}");
        if (version != MqttVersion.V5)
            return new ShownMessage(number, shown.ToString(), Expiry: null);
        if (message.ContentType is { } contentType)
            shown.Append(CultureInfo.InvariantCulture, $", content-type {contentType}");
        if (!message.CorrelationData.IsEmpty)
            shown.Append(CultureInfo.InvariantCulture, $", correlation-data {Encoding.UTF8.GetString(message.CorrelationData.Span)}");
        if (message.ResponseTopic is { } responseTopic)
            shown.Append(CultureInfo.InvariantCulture, $", response-topic {responseTopic}");
        if (!message.UserProperties.IsEmpty)
            shown.Append(CultureInfo.InvariantCulture, $", user-properties {string.Join("; ", message.UserProperties.ToArray().Select(static pair => $"{pair.Key}={pair.Value}"))}");
        return new ShownMessage(number, shown.ToString(), (long?)message.Expiry?.TotalSeconds);
    }

    private static string Show(JsonElement value) => value.ValueKind == JsonValueKind.Object
        ? string.Join("; ", value.EnumerateObject().Select(static pair => $"{pair.Name}={pair.Value.GetString()}"))
        : value.GetString()!;
}
