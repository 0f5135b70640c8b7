using MudServer.Softcode;

namespace MudServer.Game.Commands;

/// <summary>Commands that do something for each word of a list.</summary>
internal sealed class LoopCommands
{
    public IReadOnlyList<Command> All =>
    [
        new("@dolist", "@dolist <list>=<command>", "Do it for each word, which is ## or %i0.",
            call => LoopAsync(call, static call => call.RunActionsAsync())),
        new("@foreach", "@foreach <list>=<text>", "Show yourself the text for each word, a line each.",
            call => LoopAsync(call, static call => call.TellAsync(call.Right))),
        new("@map", "@map <list>=<text>", "The same, all in one line.", MapAsync),
    ];

    private static async ValueTask LoopAsync(CommandCall call, Func<CommandCall, ValueTask> roundAsync)
    {
        if (!call.Action.HasEquals)
        {
            await call.TellAsync($"Like this: {call.Action.Word} <list>=<what to do>");
            return;
        }

        var items = ListFunctions.Split(call.Left);
        call.Evaluation.Budget.Work(3L * items.Length);
        var loop = call.Evaluation.BeginLoop();
        for (var index = 0; index < items.Length && call.Player.Session.Player is not null; index++)
        {
            call.Evaluation.Budget.Step();
            loop.MoveTo(items[index]);
            await roundAsync(call);
        }

        call.Evaluation.EndLoop();
    }

    private static async ValueTask MapAsync(CommandCall call)
    {
        var results = new List<string>();
        var characters = 0L;
        await LoopAsync(call, call =>
        {
            results.Add(call.Right);
            characters += results[^1].Length + 1;
            call.Evaluation.Budget.CheckLength(characters);
            return default;
        });
        if (call.Action.HasEquals)
            await call.TellAsync(string.Join(' ', results));
    }
}
