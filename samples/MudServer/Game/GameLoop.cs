using MudServer.Game.Commands;

namespace MudServer.Game;

/// <summary>Reads the connections' messages and answers them one after another, so that the game's state needs no lock.</summary>
internal sealed class GameLoop(
    GameInput input, IOutputBuffer buffer, GameOutput output, World world, Lobby lobby, Interpreter interpreter, GameSettings settings,
    TimeProvider timeProvider, ILogger<GameLoop> logger)
{
    private static readonly TimeSpan LongestSettling = TimeSpan.FromSeconds(5);

    private readonly Dictionary<OutputHandle, Session> _sessions = [];

    /// <summary>Runs until the input is completed and all of it is answered.</summary>
    public async Task RunAsync()
    {
        await foreach (var batch in input.ReadAllAsync())
        {
            foreach (var message in batch.Messages)
            {
                try
                {
                    await HandleAsync(batch.Connection, message);
                }
                catch (Exception exception)
                {
                    Log.CommandFailed(logger, exception);
                }
            }
        }

        await SayGoodbyeAsync();
    }

    private Task HandleAsync(OutputHandle connection, InputMessage message)
    {
        if (message.Kind == InputKind.NodeStarted)
            return ForgetNodeAsync(connection.Node);
        if (_sessions.TryGetValue(connection, out var session))
        {
            session.LastInputAt = timeProvider.GetTimestamp();
            return HandleAsync(session, message);
        }

        if (message.Kind is InputKind.Gone or InputKind.Finished)
            return Task.CompletedTask;

        // This game does not know the connection: the game was restarted while the gateway kept its clients.
        session = new Session(connection, settings.IsBuffered, timeProvider.GetTimestamp());
        _sessions.Add(connection, session);
        return AnswerAsync(session, () => lobby.GreetAsync(session));
    }

    private Task HandleAsync(Session session, InputMessage message) => message.Kind switch
    {
        _ when session.IsClosing && message.Kind != InputKind.Gone => Task.CompletedTask,
        InputKind.Line => AnswerAsync(session, () => RunLineAsync(session, message.Text)),
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
        output.SendsEachMessage = !session.IsBuffered;
        var scope = session.IsBuffered ? buffer.BeginBufferingScope() : default;
        try
        {
            await answerAsync();
            if (measure is null || session.IsClosing)
                await PromptAsync(session);
        }
        finally
        {
            scope.Dispose();
        }

        if (measure is null || session.IsClosing)
            return;
        var isSettled = await TrySettleAsync();
        using (buffer.BeginBufferingScope(session.Handle))
        {
            await output.LineAsync(session, measure.Describe(isSettled));
            await PromptAsync(session);
        }
    }

    private ValueTask PromptAsync(Session session) => session.IsClosing ? default : output.PromptAsync(session);

    private async ValueTask<bool> TrySettleAsync()
    {
        try
        {
            await buffer.FlushAsync().AsTask().WaitAsync(LongestSettling, timeProvider);
            return true;
        }
        catch (Exception exception) when (exception is TimeoutException or OutputDeliveryException)
        {
            return false;
        }
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

    private async Task ForgetNodeAsync(int node)
    {
        foreach (var session in _sessions.Values.Where(session => session.Handle.Node == node).ToList())
            await AnswerAsync(session, () => LeaveAsync(session, close: false));
    }

    private async Task SayGoodbyeAsync()
    {
        output.SendsEachMessage = false;
        using var scope = buffer.BeginBufferingScope();
        foreach (var session in _sessions.Values.Where(session => !session.IsClosing))
        {
            await output.LineAsync(session, settings.Goodbye);
            await (settings.ClosesConnections ? output.ControlAsync(session, ControlMessage.Close) : output.PromptAsync(session));
        }
    }
}
