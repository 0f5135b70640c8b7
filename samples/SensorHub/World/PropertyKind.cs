namespace SensorHub.World;

/// <summary>What changes about a room or an item.</summary>
internal enum PropertyKind
{
    Temperature = 0,
    Light = 1,
    Visitor = 2,
    Owner = 3,
    Position = 4,
    HitPoints = 5,
}
