namespace MudServer.Game;

/// <summary>A place with its exits, things and players.</summary>
internal sealed class Room(int id, string name, string description)
{
    private readonly List<KeyValuePair<string, Room>> _exits = [];

    public int Id { get; } = id;

    public string Name { get; } = name;

    public string Description { get; } = description;

    /// <summary>The group of the players in the room.</summary>
    public OutputHandle Group { get; } = OutputHandle.Named($"room.{id}");

    public List<Thing> Things { get; } = [];

    public List<Player> Players { get; } = [];

    public IReadOnlyList<KeyValuePair<string, Room>> Exits => _exits;

    public void AddExit(string direction, Room room) => _exits.Add(new(direction, room));

    public bool TryGetExit(string direction, out string name, out Room room)
    {
        foreach (var exit in _exits)
        {
            if (exit.Key.Equals(direction, StringComparison.OrdinalIgnoreCase)
                || (direction.Length == 1 && exit.Key.StartsWith(direction, StringComparison.OrdinalIgnoreCase)))
            {
                (name, room) = exit;
                return true;
            }
        }

        (name, room) = (string.Empty, this);
        return false;
    }
}
