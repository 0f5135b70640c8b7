using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using BatchKit.Sessions;
using MudServer.Game.Commands;

namespace MudServer.Game;

/// <summary>Reads the connections' messages and answers them one after another, so that the game's state needs no lock.</summary>
internal sealed class GameLoop(
    GameInput input, IOutputBuffer buffer, GameOutput output, World world, Lobby lobby, Interpreter interpreter, GameSettings settings, Shards shards, Peers peers,
    ReleaseShard releaseShard, SessionTransport sessions, SlowAnswers slowAnswers, TimeProvider timeProvider, ILogger<GameLoop> logger)
{
    private static readonly TimeSpan CheckInterval = TimeSpan.FromSeconds(1);

    private readonly Dictionary<OutputHandle, Session> _sessions = [];

    /// <summary>Runs until the input is completed and all of it is answered.</summary>
    public async Task RunAsync()
    {
        await using var checks = timeProvider.CreateTimer(_ => input.Check(), state: null, CheckInterval, CheckInterval);
        await foreach (var batch in input.ReadAllAsync())
        {
            foreach (var message in batch.Messages)
            {
                try
                {
                    await (message.IsOfGame ? HandleGameAsync(batch.Connection, message) : HandleAsync(batch.Connection, message, batch.Shard));
                }
                catch (Exception exception)
                {
                    Log.CommandFailed(logger, exception);
                }
            }
        }

        await SayGoodbyeAsync();
    }

    private async Task HandleGameAsync(OutputHandle sender, InputMessage message)
    {
        if (message.Kind == InputKind.Check)
        {
            await EndAbsencesAsync();
            return;
        }

        if (message.Kind == InputKind.PasswordChecked)
        {
            await (_sessions.TryGetValue(sender, out var session) ? HandleAndShareAsync(session, message) : Task.CompletedTask);
            return;
        }

        if (message.Kind == InputKind.PlayerText)
            await TakeForwardedAsync(message.Text.Split(' ', 2));
        else if (message.Kind != InputKind.GameStarted)
            peers.Read(message);
        else if (int.Parse(message.Text, CultureInfo.InvariantCulture) is var shard && shard != shards.Home)
            await GiveBackAsync(shard, asked: sender.Node - settings.FirstNode + 1);
        if (peers.HaveAnswered)
            input.Hold(isHeld: false);
    }

    /// <summary>Answers what has arrived for a shard, gives the shard back to its own game, and tells that game all players.</summary>
    private async Task GiveBackAsync(int shard, int asked)
    {
        if (shards.Owns(shard))
        {
            await releaseShard(shard);
            await WhenAnsweredAsync(shard);
            foreach (var batch in input.TakeAll(shard))
            {
                foreach (var message in batch.Messages)
                {
                    await HandleAsync(batch.Connection, message, batch.Shard);
                    await WhenAnsweredAsync(shard);
                }
            }

            foreach (var player in world.Players.Where(player => shards.Of(player.Name) == shard))
            {
                if (player.Session.Away is { } away)
                    sessions.End(away);
                player.Session.Away = null;
            }

            foreach (var session in _sessions.Values.Where(session => session.Shard == shard).ToList())
                _sessions.Remove(session.Handle);
        }

        await peers.TellAllAsync(shard, asked);
    }

    private Task WhenAnsweredAsync(int shard) =>
        Task.WhenAll(_sessions.Values.Where(session => session.Shard == shard).Select(session => session.Answering));

    private Task HandleAsync(OutputHandle connection, InputMessage message, int shard)
    {
        if (message.Kind == InputKind.NodeStarted)
            return ForgetNodeAsync(connection.Node, shard);
        if (_sessions.TryGetValue(connection, out var session) || TryAdopt(connection, out session))
        {
            session.LastInputAt = timeProvider.GetTimestamp();
            return HandleAndShareAsync(session, message);
        }

        if (message.Kind is InputKind.Gone or InputKind.Finished)
            return Task.CompletedTask;

        // This game does not know the connection: the game was restarted while the gateway kept its clients, or the client has chosen a name of this shard.
        session = new Session(connection, settings.IsBuffered, timeProvider.GetTimestamp()) { Shard = shard };
        _sessions.Add(connection, session);
        return message.Kind == InputKind.Leaving || (shards.Count > 1 && message.Kind == InputKind.Line && Lobby.IsEntry(message.Text))
            ? HandleAndShareAsync(session, message)
            : AnswerAsync(session, () => lobby.GreetAsync(session));
    }

    /// <summary>Finds the player of a connection that another game has played until now.</summary>
    private bool TryAdopt(OutputHandle connection, [NotNullWhen(true)] out Session? session)
    {
        session = shards.Count == 1 ? null : world.Players.FirstOrDefault(player => player.Session.Handle == connection)?.Session;
        return session is not null && _sessions.TryAdd(connection, session);
    }

    private async Task HandleAndShareAsync(Session session, InputMessage message)
    {
        var before = session.Player;
        await HandleAsync(session, message);
        await peers.ShareAsync(before, session.Player);
    }

    private async Task TakeForwardedAsync(string[] parts)
    {
        if (world.TryFindPlayer(enactorId: 0, parts[0], out var player))
            await output.LineAsync(player.Session, parts[1]);
    }

    private async Task EndAbsencesAsync()
    {
        foreach (var player in world.Players.Where(player => player.Session.Away is { HasEnded: true }).ToList())
        {
            player.Session.Away = null;
            await HandleAndShareAsync(player.Session, new InputMessage(InputKind.Gone, string.Empty));
        }
    }

    private Task HandleAsync(Session session, InputMessage message) => message.Kind switch
    {
        InputKind.Leaving => SendAwayAsync(session),
        _ when session.Away is not null => EndAwayAsync(session, message),
        _ when session.IsClosing && message.Kind != InputKind.Gone => Task.CompletedTask,
        InputKind.Line => AnswerAsync(session, () => RunLineAsync(session, message.Text)),
        InputKind.PasswordChecked => AnswerAsync(session, () => lobby.EndLoginAsync(session)),
        InputKind.LineTooLong => AnswerAsync(session, () => output.LineAsync(session, "That line was too long, and no one heard it.")),
        InputKind.Finished => AnswerAsync(session, () => LeaveAsync(session, close: true)),
        InputKind.Gone => AnswerAsync(session, () => LeaveAsync(session, close: false)),
        _ => Task.CompletedTask,
    };

    private async ValueTask RunLineAsync(Session session, string line)
    {
        if (session.Player is not { } player)
        {
            await lobby.RunLineAsync(session, line);
            return;
        }

        await interpreter.RunLineAsync(player, line);
        if (session.Player is not null)
            return;
        session.IsClosing = true;
        world.RemovePlayer(player);
    }

    private async Task AnswerAsync(Session session, Func<ValueTask> answerAsync)
    {
        var measure = session.IsTimed ? new CommandMeasure(buffer, timeProvider) : null;
        var scope = session.IsBuffered ? buffer.BeginBufferingScope() : default;
        output.BeginAnswer(keepsMessages: !session.IsBuffered);
        try
        {
            await answerAsync();
            if (!session.IsClosing && measure is null && !output.HasRest)
                await output.PromptAsync(session);
        }
        finally
        {
            scope.Dispose();
            var rest = output.EndAnswer(measure);
            if (session.IsClosing)
                rest = rest with { RestAsync = null, Measure = null };
            if (!rest.IsComplete)
                slowAnswers.Begin(session, rest);
        }
    }

    /// <summary>The gateway ends: says so, closes the connection, and keeps the player for a while. All input that came before is answered.</summary>
    private async Task SendAwayAsync(Session session)
    {
        if (session.IsClosing || session.Away is not null)
            return;
        using var scope = buffer.BeginBufferingScope(session.Handle);
        var away = session.Player is not null && sessions.TryOpen(session.Handle, acknowledges: false, out var opened) ? opened : null;
        sessions.Suspend(session.Handle);
        await output.LineAsync(session, string.Empty);
        await output.LineAsync(session, away is null
            ? "This pier is closed. Connect again: the next one is open."
            : $"This pier is closed. Connect again within {settings.AwayLimit.TotalSeconds:0} s, at the next one, and type:");
        if (away is not null)
            await output.LineAsync(session, GameOutput.ForPage($"  resume {session.Shard}-{away.Token}"));
        await output.LineAsync(session, "Goodbye!");
        await output.ControlAsync(session, ControlMessage.Close);
        (session.Away, session.IsClosing) = (away, away is null);
        if (session.Player is { } player)
            player.HasChanged = true;
    }

    private Task EndAwayAsync(Session session, InputMessage message)
    {
        if (message.Kind == InputKind.Gone)
            _sessions.Remove(session.Handle);
        return Task.CompletedTask;
    }

    private async ValueTask LeaveAsync(Session session, bool close)
    {
        if (session.Player is { } player)
        {
            if (player.Room.Players.Count > 1)
                await output.RoomLineAsync(player.Room, $"{player.Name} fades into the mist.", except: player);
            world.RemovePlayer(player);
            session.Player = null;
        }

        if (close)
            await output.ControlAsync(session, ControlMessage.Close);
        session.IsClosing = true;
        if (!close)
            _sessions.Remove(session.Handle);
    }

    private async Task ForgetNodeAsync(int node, int shard)
    {
        foreach (var session in _sessions.Values.Union(world.Players.Select(player => player.Session)).ToList())
        {
            if (session.Handle.Node == node && session.Shard == shard)
                await HandleAndShareAsync(session, new InputMessage(InputKind.Gone, string.Empty));
        }
    }

    private async Task SayGoodbyeAsync()
    {
        using var scope = buffer.BeginBufferingScope();
        foreach (var session in _sessions.Values.Where(session => !session.IsClosing))
        {
            await output.LineAsync(session, settings.Goodbye);
            await (settings.ClosesConnections ? output.ControlAsync(session, ControlMessage.Close) : output.PromptAsync(session));
        }
    }
}
