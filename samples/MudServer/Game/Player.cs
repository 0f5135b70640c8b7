using MudServer.Softcode;

namespace MudServer.Game;

/// <summary>A player in the world.</summary>
internal sealed class Player(int id, string name, Session session, Room room)
{
    public int Id { get; } = id;

    public string Name { get; } = name;

    /// <summary>The connection that plays it. It changes when the user reconnects after a gateway has ended.</summary>
    public Session Session
    {
        get;
        set => (field, HasChanged) = (value, true);
    } = session;

    public Room Room
    {
        get;
        set => (field, HasChanged) = (value, true);
    } = room;

    /// <summary>True when other games have not been told yet where it is and who plays it.</summary>
    public bool HasChanged { get; set; } = true;

    public List<Thing> Things { get; } = [];

    /// <summary>The budget of its softcode; null before its first line.</summary>
    public SoftcodeAllowance? Allowance { get; set; }

    public SoftcodeObject ToSoftcode() => new(Id, Name, Room.Id);
}
