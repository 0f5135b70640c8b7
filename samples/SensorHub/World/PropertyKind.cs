namespace SensorHub.World;

/// <summary>The kind of a property of a room or an item.</summary>
internal enum PropertyKind
{
    Temperature = 0,
    Light = 1,
    Visitor = 2,
    Owner = 3,
    Position = 4,
    HitPoints = 5,
}
