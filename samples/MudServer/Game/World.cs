using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using MudServer.Softcode;

namespace MudServer.Game;

/// <summary>The rooms and the players in them. Only the game loop uses it.</summary>
internal sealed class World : ISoftcodeWorld
{
    private readonly Dictionary<int, Player> _playersById = [];
    private readonly Dictionary<string, Player> _playersByName = new(StringComparer.OrdinalIgnoreCase);
    private readonly Dictionary<int, Room> _rooms;
    private readonly int _idStep;
    private int _nextId;
    private volatile int _playerCount;

    /// <param name="rooms">The rooms, the first one for new players.</param>
    /// <param name="shards">Several games share the numbers of players: each has every second one, for example. All when null.</param>
    public World(IReadOnlyList<Room> rooms, Shards? shards = null)
    {
        _rooms = rooms.ToDictionary(room => room.Id);
        Start = rooms[0];
        _nextId = rooms.SelectMany(room => room.Things).Select(thing => thing.Id).Concat(_rooms.Keys).Max() + (shards?.Home ?? 1);
        _idStep = shards?.Count ?? 1;
    }

    public Room Start { get; }

    /// <summary>The number of players. Any thread may read it.</summary>
    public int PlayerCount => _playerCount;

    public IReadOnlyCollection<Player> Players => _playersById.Values;

    public IEnumerable<string> ConnectedPlayers => _playersById.Keys.Select(id => $"#{id}");

    public Player AddPlayer(string name, Session session) => AddPlayer(name, session, _nextId);

    /// <summary>Adds a player that has a number already. No other player gets it.</summary>
    public Player AddPlayer(string name, Session session, int id)
    {
        while (_nextId <= id)
            _nextId += _idStep;
        var player = new Player(id, name, session, Start);
        _playersById.Add(player.Id, player);
        _playersByName.Add(name, player);
        Start.Players.Add(player);
        _playerCount = _playersById.Count;
        return player;
    }

    /// <summary>Removes a player. The things that the player carried stay in the room.</summary>
    public void RemovePlayer(Player player)
    {
        player.Room.Things.AddRange(player.Things);
        player.Room.Players.Remove(player);
        _playersById.Remove(player.Id);
        _playersByName.Remove(player.Name);
        _playerCount = _playersById.Count;
    }

    /// <summary>Moves a player to the room with a number, if there is one.</summary>
    public void MoveTo(Player player, int roomId)
    {
        if (_rooms.TryGetValue(roomId, out var room))
            Move(player, room);
    }

    public static void Move(Player player, Room room)
    {
        player.Room.Players.Remove(player);
        player.Room = room;
        room.Players.Add(player);
    }

    /// <summary>Finds a player by <c>#12</c>, <c>me</c> or name, wherever they are.</summary>
    public bool TryFindPlayer(int enactorId, string reference, [NotNullWhen(true)] out Player? player)
    {
        if (TryReadId(reference, out var id))
            return _playersById.TryGetValue(id, out player);
        return reference.Equals("me", StringComparison.OrdinalIgnoreCase)
            ? _playersById.TryGetValue(enactorId, out player)
            : _playersByName.TryGetValue(reference.TrimStart('*'), out player);
    }

    public bool TryFind(SoftcodeObject enactor, string reference, out SoftcodeObject found)
    {
        found = enactor;
        if (TryFindPlayer(enactor.Id, reference, out var player))
        {
            found = player.ToSoftcode();
            return true;
        }

        var isHere = reference.Equals("here", StringComparison.OrdinalIgnoreCase);
        var roomId = isHere ? enactor.LocationId : TryReadId(reference, out var id) ? id : -1;
        if (_rooms.TryGetValue(roomId, out var room))
        {
            found = new SoftcodeObject(room.Id, room.Name, room.Id);
            return true;
        }

        return TryFindThing(enactor, reference, ref found);
    }

    private bool TryFindThing(SoftcodeObject enactor, string reference, ref SoftcodeObject found)
    {
        if (!_playersById.TryGetValue(enactor.Id, out var player))
            return false;
        foreach (var thing in player.Things.Concat(player.Room.Things))
        {
            if (!thing.IsCalled(reference) && !(TryReadId(reference, out var id) && thing.Id == id))
                continue;
            found = new SoftcodeObject(thing.Id, thing.Name, player.Things.Contains(thing) ? player.Id : player.Room.Id);
            return true;
        }

        return false;
    }

    private static bool TryReadId(string reference, out int id)
    {
        id = 0;
        return reference.StartsWith('#') && int.TryParse(reference.AsSpan(1), NumberStyles.None, CultureInfo.InvariantCulture, out id);
    }
}
