using MudServer.Game;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>The buffers that carry input to the games, one for each shard. A client without a name is served by the first.</summary>
internal sealed class ShardInputs(IServiceProvider services, MudOptions options)
{
    public const int Lobby = 1;

    private readonly IOutputBuffer[] _inputs =
        [.. Enumerable.Range(1, options.ShardCount).Select(shard => services.GetRequiredKeyedService<IOutputBuffer>(MudBuffers.InputOf(shard)))];

    public IEnumerable<IOutputBuffer> All => _inputs;

    public IOutputBuffer this[int shard] => _inputs[shard - 1];

    /// <summary>Returns the shard that a line of a client without a player goes to: that of the name or the token in it, if it has one.</summary>
    public int FindShard(string line, int current)
    {
        if (_inputs.Length == 1)
            return current;
        if (Game.Lobby.TryReadName(line, out var name))
            return Shards.Of(name, _inputs.Length);
        var resumed = Game.Lobby.ReadShard(line);
        return resumed >= 1 && resumed <= _inputs.Length ? resumed : current;
    }
}
