using System.Text.Json;

namespace SensorHub.World;

/// <summary>One property of a room or an item: a topic of its own, and a value that changes at random.</summary>
internal sealed class WorldProperty(string thing, string name, PropertyKind kind)
{
    private static readonly string[] People = ["Ana", "Bob", "Cleo", "Dan", "nobody"];

    private long _number;

    // The topic's handle and the header of its messages are created once, so that a write allocates nothing.
    public OutputHandle Handle { get; } = OutputHandle.Named($"{GameWorld.TopicRoot}/{thing}/{name}");

    public MessageHeader Header { get; } = new()
    {
        ContentType = "application/json",
        Properties = [new("thing", thing), new("property", name), new("unit", UnitOf(kind))],
    };

    /// <summary>Writes <c>{"value":21.5,"number":1,"at":2,"run":3}</c>.</summary>
    public void WriteNext(Utf8JsonWriter json, Random random, long at, int run)
    {
        json.WriteStartObject();
        json.WritePropertyName("value"u8);
        WriteValue(json, random);
        new ChangeMark(++_number, at, run).WriteTo(json);
        json.WriteEndObject();
    }

    private void WriteValue(Utf8JsonWriter json, Random random)
    {
        switch (kind)
        {
            case PropertyKind.Temperature:
                json.WriteNumberValue(15 + (random.Next(150) / 10m));
                break;
            case PropertyKind.Visitor or PropertyKind.Owner:
                json.WriteStringValue(People[random.Next(People.Length)]);
                break;
            case PropertyKind.Position:
                json.WriteStartArray();
                json.WriteNumberValue(random.Next(-100, 100));
                json.WriteNumberValue(random.Next(-100, 100));
                json.WriteEndArray();
                break;
            default:
                json.WriteNumberValue(random.Next(1000));
                break;
        }
    }

    private static string UnitOf(PropertyKind kind) => kind switch
    {
        PropertyKind.Temperature => "celsius",
        PropertyKind.Light => "lux",
        PropertyKind.Position => "metres",
        PropertyKind.HitPoints => "points",
        _ => "name",
    };
}
