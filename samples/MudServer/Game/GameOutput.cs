using System.Text;

namespace MudServer.Game;

/// <summary>Writes all output of the game: lines, prompts and control messages. Only the game loop uses it.</summary>
internal sealed class GameOutput(IOutputBuffer output, AwayPlayers awayPlayers, Peers peers)
{
    private byte[] _bytes = new byte[1024];
    private List<KeptMessage>? _kept;
    private Func<Task<IReadOnlyList<string>>>? _compareAsync;

    /// <summary>True when a comparison follows the answer.</summary>
    public bool Compares => _compareAsync is not null;

    /// <summary>Begins an answer.</summary>
    /// <param name="keepsMessages">True keeps its messages for <see cref="EndAnswer"/> instead of writing them.</param>
    public void BeginAnswer(bool keepsMessages) => (_kept, _compareAsync) = (keepsMessages ? [] : null, null);

    /// <summary>Runs a comparison when the command has run. A line of input has one at most.</summary>
    public void CompareAfterwards(Func<Task<IReadOnlyList<string>>> compareAsync) => _compareAsync = compareAsync;

    /// <summary>Ends the answer, and returns what is left of it.</summary>
    public SlowAnswer EndAnswer(CommandMeasure? measure)
    {
        var rest = new SlowAnswer(_kept ?? [], _compareAsync, measure);
        (_kept, _compareAsync) = (null, null);
        return rest;
    }

    public ValueTask LineAsync(Session session, string text) => session is { IsAwayElsewhere: true, Player: { } player } && peers.Keeps(player)
        ? peers.ForwardAsync(player, text)
        : WriteAsync(session, Encode(text, "\r\n"), header: null);

    public async ValueTask LinesAsync(Session session, string text)
    {
        foreach (var line in text.Split('\n'))
            await LineAsync(session, line.TrimEnd('\r'));
    }

    /// <summary>Writes a line for all players in a room. It crosses a broker once, and the last hop knows the members of the group. Players that are away are no members.</summary>
    public async ValueTask RoomLineAsync(Room room, string text, Player? except = null)
    {
        var header = except is null ? null : new MessageHeader { ExcludedConnections = [except.Session.Handle] };
        await WriteAsync(room.Group, Encode(text, "\r\n"), header);
        foreach (var player in room.Players)
        {
            if (player != except && player.Session.IsAway)
                await LineAsync(player.Session, text);
        }
    }

    public ValueTask PromptAsync(Session session) => WriteAsync(session, Encode("> ", string.Empty), MessageHeader.Prompt);

    /// <summary>Tells the last hop what to do with a connection. A player that is away has none.</summary>
    public ValueTask ControlAsync(Session session, ControlMessage control) =>
        session.Away is null ? WriteAsync(session.Handle, control.ToPayload(), MessageHeader.Control) : default;

    /// <summary>Writes what waited for a player that was away, in order.</summary>
    public async ValueTask ReplayAsync(Session session, AwayOutput away)
    {
        foreach (var (payload, header) in away.Lines)
            await WriteAsync(session.Handle, payload, header);
        if (away.LostLines > 0)
            await LineAsync(session, $"[{away.LostLines} more lines were lost while you were away.]");
    }

    private ReadOnlyMemory<byte> Encode(string text, string ending)
    {
        var most = Encoding.UTF8.GetMaxByteCount(text.Length + ending.Length);
        if (_bytes.Length < most)
            _bytes = new byte[most];
        var length = Encoding.UTF8.GetBytes(text, _bytes);
        length += Encoding.UTF8.GetBytes(ending, _bytes.AsSpan(length));
        return _bytes.AsMemory(0, length);
    }

    private ValueTask WriteAsync(Session session, ReadOnlyMemory<byte> payload, MessageHeader? header)
    {
        if (session.Away is not { } away)
            return WriteAsync(session.Handle, payload, header);
        awayPlayers.Keep(away, payload.Span, header);
        return default;
    }

    private ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header)
    {
        if (_kept is null)
            return output.WriteAsync(handle, payload, header);
        _kept.Add(new KeptMessage(handle, payload.ToArray(), header));
        return default;
    }
}
