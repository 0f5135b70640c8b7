using MudServer.Softcode;

namespace MudServer.Game;

/// <summary>Somebody in the world.</summary>
internal sealed class Player(int id, string name, Session session, Room room)
{
    public int Id { get; } = id;

    public string Name { get; } = name;

    public Session Session { get; } = session;

    public Room Room { get; set; } = room;

    public List<Thing> Things { get; } = [];

    public SoftcodeObject ToSoftcode() => new(Id, Name, Room.Id);
}
