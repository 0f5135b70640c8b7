using System.Globalization;
using System.Text;

namespace MudServer.Game;

/// <summary>Stops receiving a shard's input, so that its own game gets it.</summary>
internal delegate Task ReleaseShard(int shard);

/// <summary>
/// What the games tell each other: who plays, where, and over which connection. Each game knows all players, so that they see each other, and so that any game can take over a shard. Only the game
/// loop uses it.
/// </summary>
/// <param name="world">Gets the players of the other games.</param>
/// <param name="shards">Which shards this game owns. A message goes to the owners of all others.</param>
/// <param name="settings">The settings of a session.</param>
/// <param name="firstNode">The node number of the first shard.</param>
/// <param name="output">A buffer of its own, because output for a game that never started is tried again for a while; null where there is only this game.</param>
/// <param name="timeProvider">The clock.</param>
internal sealed class Peers(World world, Shards shards, GameSettings settings, int firstNode, IOutputBuffer? output, TimeProvider timeProvider)
{
    private readonly HashSet<int> _answered = [];

    /// <summary>True once all other games have told their players.</summary>
    public bool HaveAnswered => _answered.Count >= shards.Count - 1;

    /// <summary>Tells the other games that this one has started. They answer with their players, and give its shard back.</summary>
    public async ValueTask AnnounceAsync()
    {
        foreach (var shard in shards.All.Where(shard => shard != shards.Home))
            await WriteAsync(shard, InputKind.GameStarted, shards.Home.ToString(CultureInfo.InvariantCulture));
    }

    /// <summary>Tells the other games what an answer changed: a player came, moved or left.</summary>
    public ValueTask ShareAsync(Player? before, Player? after)
    {
        if (before is not null && after is null && !world.TryFindPlayer(enactorId: 0, before.Name, out _))
            return TellAsync(InputKind.PlayerGone, before.Name);
        if (after is null || !after.HasChanged)
            return default;
        after.HasChanged = false;
        return TellAsync(InputKind.PlayerHere, Describe(after));
    }

    /// <summary>True when another game keeps the output of a player.</summary>
    public bool Keeps(Player player) => !shards.Owns(shards.Of(player.Name));

    /// <summary>Sends a line for a player that is away to the game that keeps it.</summary>
    public ValueTask ForwardAsync(Player player, string text) => WriteAsync(shards.Of(player.Name), InputKind.PlayerText, $"{player.Name} {text}");

    /// <summary>Tells a game that has started all players.</summary>
    /// <param name="shard">The game's own shard.</param>
    /// <param name="asked">The shard whose owner the game asked.</param>
    public async ValueTask TellAllAsync(int shard, int asked)
    {
        foreach (var player in world.Players)
            await WriteAsync(shard, InputKind.PlayerHere, Describe(player));
        await WriteAsync(shard, InputKind.PlayersTold, asked.ToString(CultureInfo.InvariantCulture));
    }

    /// <summary>Takes in what another game tells.</summary>
    public void Read(InputMessage message)
    {
        if (message.Kind == InputKind.PlayersTold)
            _answered.Add(int.Parse(message.Text, CultureInfo.InvariantCulture));
        else if (message.Kind == InputKind.PlayerHere)
            Put(message.Text.Split(' '));
        else if (world.TryFindPlayer(enactorId: 0, message.Text, out var gone) && !shards.Owns(shards.Of(gone.Name)))
            world.RemovePlayer(gone);
    }

    private static string Describe(Player player) => string.Create(
        CultureInfo.InvariantCulture, $"{player.Id} {player.Name} {player.Room.Id} {player.Session.Handle.Number} {player.Session.Away is not null}");

    // A player whom this game plays is better known here.
    private void Put(string[] parts)
    {
        var (id, name, room) = (Number(parts[0]), parts[1], (int)Number(parts[2]));
        var handle = OutputHandle.Connection(Number(parts[3]));
        var isKnown = world.TryFindPlayer(enactorId: 0, name, out var player);
        if (isKnown && shards.Owns(shards.Of(name)))
            return;
        if (player is null || player.Session.Handle != handle)
        {
            var session = new Session(handle, settings.IsBuffered, timeProvider.GetTimestamp()) { Shard = shards.Of(name), Player = player };
            player ??= world.AddPlayer(name, session, (int)id);
            (player.Session, session.Player) = (session, player);
        }

        player.Session.IsAwayElsewhere = bool.Parse(parts[4]);
        world.MoveTo(player, room);
        player.HasChanged = false;
    }

    private static long Number(string text) => long.Parse(text, CultureInfo.InvariantCulture);

    private async ValueTask TellAsync(InputKind kind, string text)
    {
        foreach (var shard in shards.All)
        {
            if (!shards.Owns(shard))
                await WriteAsync(shard, kind, text);
        }
    }

    private ValueTask WriteAsync(int shard, InputKind kind, string text) => output is null
        ? default
        : output.WriteAsync(HandleFor(shard), Encoding.UTF8.GetBytes(text), InputMessage.HeaderFor(kind));

    // Its node is the receiver. It tells the senders apart.
    private OutputHandle HandleFor(int shard) => OutputHandle.Connection(firstNode + shard - 1, shards.Home);
}
