using MudServer.Softcode;

namespace MudServer.Game;

/// <summary>Someone in the world.</summary>
internal sealed class Player(int id, string name, Session session, Room room)
{
    public int Id { get; } = id;

    public string Name { get; } = name;

    /// <summary>The connection that plays it; another one when its gateway was lost and its user came back.</summary>
    public Session Session { get; set; } = session;

    public Room Room { get; set; } = room;

    public List<Thing> Things { get; } = [];

    /// <summary>What its softcode may use; null before its first line.</summary>
    public SoftcodeAllowance? Allowance { get; set; }

    public SoftcodeObject ToSoftcode() => new(Id, Name, Room.Id);
}
