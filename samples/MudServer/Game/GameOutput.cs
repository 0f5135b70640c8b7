using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;
using BatchKit.Broadcast;
using BatchKit.Broadcast.Telnet;
using BatchKit.Sessions;
using AwaySession = BatchKit.Sessions.Session;

namespace MudServer.Game;

/// <summary>Writes all output of the game: lines, prompts and control messages. Only the game loop uses it.</summary>
/// <param name="output">The output for connections and rooms.</param>
/// <param name="awayOutput">The output for players between two connections, whose only route is the sessions.</param>
/// <param name="sessions">They keep that output.</param>
/// <param name="peers">The other games.</param>
internal sealed class GameOutput(IOutputBuffer output, IOutputBuffer awayOutput, SessionTransport sessions, Peers peers)
{
    private byte[] _bytes = new byte[1024];
    private List<KeptMessage>? _kept;
    private Func<Task<IReadOnlyList<string>>>? _restAsync;

    /// <summary>True when the rest of the answer runs beside the game loop.</summary>
    public bool HasRest => _restAsync is not null;

    /// <summary>Begins an answer.</summary>
    /// <param name="keepsMessages">True keeps its messages for <see cref="EndAnswer"/> instead of writing them.</param>
    public void BeginAnswer(bool keepsMessages) => (_kept, _restAsync) = (keepsMessages ? [] : null, null);

    /// <summary>Runs something when the command has run, beside the game loop, and writes the lines that it returns. A line of input has one at most.</summary>
    public void RunAfterwards(Func<Task<IReadOnlyList<string>>> restAsync) => _restAsync = restAsync;

    /// <summary>Ends the answer, and returns what is left of it.</summary>
    public SlowAnswer EndAnswer(CommandMeasure? measure)
    {
        var rest = new SlowAnswer(_kept ?? [], _restAsync, measure);
        (_kept, _restAsync) = (null, null);
        return rest;
    }

    /// <summary>Marks a line that the web page obeys. Terminals don't show the mark, and no player's text can have it: an escape does not pass <see cref="PlayerText"/>.</summary>
    public static string ForPage(string line) => "\u001b[0m" + line;

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

    /// <summary>Writes the prompt, or asks for a password, which telnet clients then don't show.</summary>
    public async ValueTask PromptAsync(Session session)
    {
        if (session.AskedName is not null)
            await WriteAsync(session, ReadOnlyMemory<byte>.Empty, TelnetMessages.HideInput);
        await WriteAsync(session, Encode(session.AskedName is null ? "> " : "Password: ", string.Empty), MessageHeader.Prompt);
    }

    /// <summary>Shows again what is typed, below the password: its line's end was not shown either.</summary>
    public async ValueTask EndPasswordAsync(Session session)
    {
        await WriteAsync(session, ReadOnlyMemory<byte>.Empty, TelnetMessages.ShowInput);
        await LineAsync(session, string.Empty);
    }

    /// <summary>Tells MUD clients where the player is (GMCP), for their maps.</summary>
    public ValueTask TellRoomAsync(Session session, Room room)
    {
        var info = JsonSerializer.Serialize(new ShownRoom(room.Id, room.Name, room.Exits.ToDictionary(exit => exit.Key, exit => exit.Value.Id)), GmcpJson.Default.ShownRoom);
        return WriteAsync(session, Encode("Room.Info ", info), TelnetMessages.Gmcp);
    }

    /// <summary>Tells the last hop what to do with a connection. A player that is away has none.</summary>
    public ValueTask ControlAsync(Session session, ControlMessage control) =>
        session.Away is null ? WriteAsync(session.Handle, control.ToPayload(), MessageHeader.Control) : default;

    /// <summary>Hands what waited for a player that was away to its new connection, in order, behind what the answer has written so far. Later output goes straight to the connection.</summary>
    public async ValueTask HandOverAsync(AwaySession away, Session session)
    {
        (var before, _kept) = (_kept ?? [], null);
        foreach (var message in before)
            await WriteAsync(message.Handle, message.Payload, message.Header);
        try
        {
            // Once taken up, it does not expire. What the output has no capacity for yet is handed over when the broker has taken some.
            while (sessions.TryResume(away.Token, session.Handle, lastReceived: 0, out _))
            {
                await awayOutput.FlushAsync(away.Handle);
                if (away.IsForwarded)
                    break;
                await output.FlushAsync(session.Handle);
            }
        }
        finally
        {
            sessions.End(away);
        }

        if (away.LostMessages > 0)
            await LineAsync(session, $"[{away.LostMessages} more lines were lost while you were away.]");
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

    private ValueTask WriteAsync(Session session, ReadOnlyMemory<byte> payload, MessageHeader? header) => session.Away is { } away
        ? awayOutput.WriteAsync(away.Handle, payload, header)
        : WriteAsync(session.Handle, payload, header);

    private ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header)
    {
        if (_kept is null)
            return output.WriteAsync(handle, payload, header);
        _kept.Add(new KeptMessage(handle, payload.ToArray(), header));
        return default;
    }
}

/// <summary>The content of GMCP's <c>Room.Info</c>.</summary>
internal sealed record ShownRoom(int Num, string Name, IReadOnlyDictionary<string, int> Exits);

[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(ShownRoom))]
internal sealed partial class GmcpJson : JsonSerializerContext;
