using System.Buffers;
using System.Text.Json;

namespace SensorHub.World;

/// <summary>Rooms and items whose properties change. Not thread-safe, except for the counter.</summary>
internal sealed class GameWorld : IDisposable
{
    /// <summary>The first level of all topics: <c>world/room/17/temperature</c>, <c>world/item/4/position</c>.</summary>
    public const string TopicRoot = "world";

    private static readonly (string Name, PropertyKind Kind)[] RoomProperties =
        [("temperature", PropertyKind.Temperature), ("light", PropertyKind.Light), ("visitor", PropertyKind.Visitor)];

    private static readonly (string Name, PropertyKind Kind)[] ItemProperties =
        [("owner", PropertyKind.Owner), ("position", PropertyKind.Position), ("hit-points", PropertyKind.HitPoints)];

    private readonly ArrayBufferWriter<byte> _payload = new();
    private readonly Utf8JsonWriter _json;
    private readonly Random _random = new();
    private readonly RunClock _clock;
    private long _changes;

    /// <param name="topics">How many properties there are.</param>
    /// <param name="clock">Gives the time of each change.</param>
    public GameWorld(int topics, RunClock clock)
    {
        _clock = clock;
        _json = new Utf8JsonWriter(_payload);
        Properties = [.. CreateAll().Take(topics)];
    }

    /// <summary>A number that distinguishes this run's changes from those of other runs at the same broker.</summary>
    public int Run { get; } = Random.Shared.Next();

    public IReadOnlyList<WorldProperty> Properties { get; }

    /// <summary>The number of changes so far. Any thread may read it.</summary>
    public long Changes => Volatile.Read(ref _changes);

    /// <summary>Changes the value of one property.</summary>
    public PropertyChange ChangeOne()
    {
        var property = Properties[_random.Next(Properties.Count)];
        _payload.ResetWrittenCount();
        _json.Reset();
        property.WriteNext(_json, _random, _clock.Microseconds, Run);
        _json.Flush();
        Volatile.Write(ref _changes, _changes + 1);
        return new PropertyChange(property.Handle, property.Header, _payload.WrittenMemory);
    }

    public void Dispose() => _json.Dispose();

    private static IEnumerable<WorldProperty> CreateAll()
    {
        for (var number = 1; ; number++)
        {
            foreach (var (name, kind) in RoomProperties)
                yield return new WorldProperty($"room/{number}", name, kind);
            foreach (var (name, kind) in ItemProperties)
                yield return new WorldProperty($"item/{number}", name, kind);
        }
    }
}
