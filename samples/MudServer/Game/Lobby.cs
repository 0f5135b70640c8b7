using System.Globalization;
using MudServer.Game.Commands;
using AwaySession = BatchKit.Sessions.Session;

namespace MudServer.Game;

/// <summary>Handles the lines of a connection that has no player yet.</summary>
internal sealed class Lobby(World world, GameOutput output, WhoList whoList, Shards shards, Passwords passwords)
{
    private const int MaxNameLetters = 16;
    private const int MaxWrongPasswords = 3;

    /// <summary>True for a line that asks to step ashore, under a name or with a token.</summary>
    public static bool IsEntry(string line) => TryReadName(line, out _) || ReadShard(line) > 0;

    /// <summary>Reads the name from a line that asks to step ashore.</summary>
    public static bool TryReadName(string line, out string name)
    {
        var words = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        var isEntry = words.Length >= 2 && words[0].ToLowerInvariant() is "connect" or "co" or "create" or "login";
        name = isEntry ? words[1] : string.Empty;
        return isEntry;
    }

    /// <summary>Reads the shard from a line that asks to resume; zero when it does not.</summary>
    public static int ReadShard(string line)
    {
        var words = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        var isResume = words.Length == 2 && words[0].Equals("resume", StringComparison.OrdinalIgnoreCase);
        return isResume && int.TryParse(words[1].Split('-')[0], NumberStyles.None, CultureInfo.InvariantCulture, out var shard) ? shard : 0;
    }

    public async ValueTask GreetAsync(Session session)
    {
        await output.LinesAsync(session, """

                 .
                /|\        L A N T E R N   I S L E
               / | \
              /__|__\      a small world on BatchKit
            ~~~~~~~~~~~~~
            """);
        await output.LineAsync(session, string.Empty);
        await output.LineAsync(session, "Type \"connect <name>\" to step ashore, \"login <name>\" to do so with a password, \"who\" to see who is there, or \"quit\".");
    }

    public async ValueTask RunLineAsync(Session session, string line)
    {
        var asked = session.AskedName;
        session.AskedName = null;
        if (asked is not null)
            await output.EndPasswordAsync(session);
        if (asked is not null && !IsEntry(line))
        {
            await CheckAsync(session, asked, line);
            return;
        }

        var words = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        switch (words.FirstOrDefault()?.ToLowerInvariant())
        {
            case null:
                break;
            case var entry when TryReadName(line, out var name):
                await (entry == "login" ? AskAsync(session, name) : ConnectAsync(session, name));
                break;
            case "resume" when words.Length == 2:
                await ResumeAsync(session, words[1]);
                break;
            case "who":
                await whoList.WriteAsync(output, session);
                break;
            case "quit":
                await output.LineAsync(session, "Another time, then.");
                await output.ControlAsync(session, ControlMessage.Close);
                session.IsClosing = true;
                break;
            default:
                await output.LineAsync(session, "Type \"connect <name>\" to step ashore, for example: connect Ana");
                break;
        }
    }

    /// <summary>Goes on when a password has been hashed.</summary>
    public async ValueTask EndLoginAsync(Session session)
    {
        if (session.Checked is not { } answer)
            return;
        session.Checked = null;
        if (answer.Known is null && world.TryFindPlayer(enactorId: 0, answer.Name, out _))
        {
            // Someone has come under the new name meanwhile, and must not lose it to a stranger.
            await output.LineAsync(session, $"{answer.Name} is on the island already. Choose another name.");
            return;
        }

        if (passwords.End(answer))
        {
            await EnterAsync(session, answer.Name, isProven: true);
            return;
        }

        await output.LineAsync(session, "That is not the password.");
        if (++session.WrongPasswords < MaxWrongPasswords)
            return;
        await output.ControlAsync(session, ControlMessage.Close);
        session.IsClosing = true;
    }

    private async ValueTask AskAsync(Session session, string name)
    {
        if (!await TryTakeNameAsync(session, name))
            return;
        if (passwords.Has(name))
        {
            session.AskedName = name;
            return;
        }

        if (passwords.IsFull || world.TryFindPlayer(enactorId: 0, name, out _))
        {
            await output.LineAsync(session, passwords.IsFull ? "The island remembers no more names. Type \"connect <name>\"." : $"{name} is on the island already. Choose another name.");
            return;
        }

        await output.LineAsync(session, $"{name} has no password yet. Choose one: {Passwords.MinCharacters} to {Passwords.MaxCharacters} characters, without a space.");
        session.AskedName = name;
    }

    private async ValueTask CheckAsync(Session session, string name, string password)
    {
        if (password.Length is >= Passwords.MinCharacters and <= Passwords.MaxCharacters && !password.Contains(' ', StringComparison.Ordinal))
            passwords.Begin(session, name, password);
        else
            await output.LineAsync(session, $"A password has {Passwords.MinCharacters} to {Passwords.MaxCharacters} characters, without a space.");
    }

    private async ValueTask ConnectAsync(Session session, string name)
    {
        if (!await TryTakeNameAsync(session, name))
            return;
        if (passwords.Has(name))
            await output.LineAsync(session, $"{name} has a password. Type \"login {name}\".");
        else
            await EnterAsync(session, name, isProven: false);
    }

    /// <returns>False when the name is none, or is not played here; the user was told why.</returns>
    private async ValueTask<bool> TryTakeNameAsync(Session session, string name)
    {
        var isName = name.Length is > 1 and <= MaxNameLetters && char.IsLetter(name[0]) && name.All(char.IsLetterOrDigit);
        if (!isName || name.Equals("me", StringComparison.OrdinalIgnoreCase) || name.Equals("here", StringComparison.OrdinalIgnoreCase))
        {
            await output.LineAsync(session, $"A name has 2 to {MaxNameLetters} letters or digits, and a letter comes first.");
            return false;
        }

        if (shards.Of(name) == session.Shard)
            return true;
        await output.LineAsync(session, $"This gateway does not know which game plays {name}: start it with --shards {shards.Count}.");
        return false;
    }

    private async ValueTask EnterAsync(Session session, string name, bool isProven)
    {
        if (world.TryFindPlayer(enactorId: 0, name, out var other))
        {
            if (other.Session.Away is { } away)
            {
                await ReturnAsync(session, other, away);
                return;
            }

            await (other.Session.Handle.Node == session.Handle.Node && !isProven
                ? output.LineAsync(session, $"{other.Name} is on the island already. Choose another name.")
                : TakeOverAsync(session, other));
            return;
        }

        var player = world.AddPlayer(name, session);
        session.Player = player;
        await output.ControlAsync(session, ControlMessage.JoinGroup(player.Room.Group.Name!));
        if (player.Room.Players.Count > 1)
            await output.RoomLineAsync(player.Room, $"{name} steps off the ferry.", except: player);
        await output.LineAsync(session, GameOutput.ForPage($"Welcome, {name}. You are #{player.Id}. Type \"help\" to see what you can do."));
        await output.LineAsync(session, string.Empty);
        await MoveCommands.ShowRoomAsync(output, player);
    }

    // The token is a shard, and that of a session of the library.
    private ValueTask ResumeAsync(Session session, string token) =>
        world.Players.FirstOrDefault(player => token.Split('-', 2)[^1] == player.Session.Away?.Token) is { Session.Away: { } away } player
            ? ReturnAsync(session, player, away)
            : output.LineAsync(session, GameOutput.ForPage("That token is not valid any more. Type \"connect <name>\"."));

    /// <summary>Gives a player that was away to its new connection, with all that was written meanwhile.</summary>
    private async ValueTask ReturnAsync(Session session, Player player, AwaySession away)
    {
        var before = player.Session;
        (before.Away, before.Player, before.IsClosing) = (null, null, true);
        (session.IsBuffered, session.IsTimed) = (before.IsBuffered, before.IsTimed);
        (player.Session, session.Player) = (session, player);
        await output.ControlAsync(session, ControlMessage.JoinGroup(player.Room.Group.Name!));
        await output.LineAsync(session, GameOutput.ForPage($"Welcome back, {player.Name}. You are #{player.Id}."));
        await output.HandOverAsync(away, session);
    }

    /// <summary>
    /// Moves a player, with its room and its things, to a connection of another gateway, or to one that gave the password. The player's own gateway may have been killed, and then the game is not told
    /// before that gateway starts again. If it still runs, the connection there is closed.
    /// </summary>
    private async ValueTask TakeOverAsync(Session session, Player player)
    {
        var before = player.Session;
        await output.LineAsync(before, GameOutput.ForPage("You have come ashore by another way, and this one is closed."));
        await output.ControlAsync(before, ControlMessage.Close);
        before.Player = null;
        before.IsClosing = true;
        player.Session = session;
        session.Player = player;
        await output.ControlAsync(session, ControlMessage.JoinGroup(player.Room.Group.Name!));
        await output.LineAsync(session, GameOutput.ForPage($"Welcome back, {player.Name}. You are #{player.Id}. Type \"help\" to see what you can do."));
        await output.LineAsync(session, string.Empty);
        await MoveCommands.ShowRoomAsync(output, player);
    }
}
