using MudServer.Softcode;

namespace MudServer.Game.Commands;

/// <summary>Runs a player's line: finds each command, counts its steps, and stops it when it exceeds a limit.</summary>
internal sealed class Interpreter(
    World world, GameOutput output, CommandTable commands, SoftcodeLimits limits, Random random, TimeProvider timeProvider)
{
    // All players run on the game's one thread.
    private readonly SoftcodeAllowance _shared = new(limits.MaxSharedUnits, limits.SharedUnitsPerSecond, timeProvider);

    public async ValueTask RunLineAsync(Player player, string line)
    {
        var allowance = player.Allowance ??= new SoftcodeAllowance(limits.MaxUnits, limits.UnitsPerSecond, timeProvider);
        var budget = new SoftcodeBudget(limits, Math.Min(allowance.Available, Math.Max(limits.UnsharedUnitsOfLine, _shared.Available)));
        var evaluation = new Evaluation(player.ToSoftcode(), world, budget, random, timeProvider);
        try
        {
            IReadOnlyList<ParsedAction> actions = line.TrimStart().StartsWith('{')
                ? ParsedAction.ParseList(line, FunctionTable.Standard, budget)
                : [ParsedAction.ParseOne(line, FunctionTable.Standard, budget)];
            await RunAsync(player, actions, evaluation);
        }
        catch (SoftcodeLimitException exception)
        {
            await output.LineAsync(player.Session, $"Your command was stopped: {exception.Message}.");
        }
        finally
        {
            allowance.Spend(budget.UsedUnits);
            _shared.Spend(budget.UsedUnits);
        }
    }

    public async ValueTask RunAsync(Player player, IReadOnlyList<ParsedAction> actions, Evaluation evaluation)
    {
        evaluation.Budget.Enter();
        for (var index = 0; index < actions.Count && player.Session.Player is not null; index++)
            await RunAsync(player, actions[index], evaluation);
        evaluation.Budget.Leave();
    }

    private ValueTask RunAsync(Player player, ParsedAction action, Evaluation evaluation)
    {
        evaluation.Budget.Step();
        if (action.IsDynamic)
            action = action.WithWord(action.ParseWord().Evaluate(evaluation));
        if (action.Word.Length == 0)
            return default;
        var call = new CommandCall(player, action, evaluation, output, this);
        if (commands.TryGet(action.Word, out var command))
            return command.RunAsync(call);
        if (action.Rest.Length == 0 && player.Room.TryGetExit(action.Word, out _, out _))
            return MoveCommands.GoAsync(call, action.Word);
        return call.TellAsync("Huh?  (Type \"help\" for help.)");
    }
}
