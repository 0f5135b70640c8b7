using MudServer.Softcode;

namespace MudServer.Game.Commands;

/// <summary>One call of a command: its player, its arguments and the methods to answer.</summary>
internal sealed class CommandCall(Player player, ParsedAction action, Evaluation evaluation, GameOutput output, Interpreter interpreter)
{
    public Player Player { get; } = player;

    public ParsedAction Action { get; } = action;

    public Evaluation Evaluation { get; } = evaluation;

    public GameOutput Output { get; } = output;

    public string Argument => Action.Argument.Evaluate(Evaluation).Trim();

    public string Left => Action.Left.Evaluate(Evaluation).Trim();

    public string Right => Action.Right.Evaluate(Evaluation);

    public ValueTask TellAsync(string text) => TellAsync(Player, text);

    public ValueTask TellAsync(Player player, string text)
    {
        Evaluation.Budget.SpendOutput(text.Length);
        return Output.LineAsync(player.Session, text);
    }

    /// <summary>Tells the player one text and the others in the room another.</summary>
    public async ValueTask TellRoomAsync(string toPlayer, string toOthers)
    {
        await TellAsync(toPlayer);
        await TellOthersAsync(toOthers);
    }

    public ValueTask TellOthersAsync(string text)
    {
        Evaluation.Budget.SpendOutput(text.Length, listeners: Player.Room.Players.Count - 1);
        return Player.Room.Players.Count > 1 ? Output.RoomLineAsync(Player.Room, text, except: Player) : default;
    }

    /// <summary>Runs the actions after the equals sign.</summary>
    public ValueTask RunActionsAsync() => interpreter.RunAsync(Player, Action.RightActions, Evaluation);
}
