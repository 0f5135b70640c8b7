using System.Collections.Concurrent;
using BatchKit;

namespace MudGame;

/// <summary>The room that all players are in. Their handlers run at the same time, so its members are thread-safe.</summary>
internal sealed class Room(IOutputBuffer output, MudSettings settings)
{
    private const string Group = "room";

    private static readonly OutputHandle Everyone = OutputHandle.Named(Group);

    private readonly ConcurrentDictionary<string, OutputHandle> _players = new(StringComparer.OrdinalIgnoreCase);

    public string Description =>
        $"{settings.RoomName}\r\n{settings.RoomDescription}\r\nHere: {string.Join(", ", _players.Keys.Order(StringComparer.OrdinalIgnoreCase))}";

    /// <summary>Adds a player to the room.</summary>
    /// <returns>False when the name is taken.</returns>
    public async ValueTask<bool> TryEnterAsync(string name, OutputHandle player, CancellationToken cancellationToken)
    {
        if (!_players.TryAdd(name, player))
            return false;
        try
        {
            output.Write(player, ControlMessage.JoinGroup(Group));
            await TellOthersAsync(player, $"{name} arrives.", cancellationToken);
            return true;
        }
        catch
        {
            // The connection ends, and the name is free again.
            _players.TryRemove(name, out _);
            throw;
        }
    }

    /// <summary>Removes a player from the room. Unlike the other members it does not wait while the buffer is full, because it is also called after the connection has ended.</summary>
    public void Leave(string name, OutputHandle player)
    {
        _players.TryRemove(name, out _);
        output.TryWrite(Everyone, $"{name} leaves.\r\n", ForOthers(player));
    }

    /// <summary>Writes a line for all players except one. A group's message is written once, whatever the number of players.</summary>
    public ValueTask TellOthersAsync(OutputHandle player, string line, CancellationToken cancellationToken) =>
        output.WriteAsync(Everyone, $"{line}\r\n", ForOthers(player), cancellationToken);

    private static MessageHeader ForOthers(OutputHandle player) => new() { ExcludedConnections = [player] };
}
