using System.Globalization;
using System.Text;

namespace MudServer.Softcode;

/// <summary>Functions that read the world.</summary>
internal static class WorldFunctions
{
    public static IReadOnlyList<SoftcodeFunction> All { get; } =
    [
        new("name(thing)", 1, 1, (arguments, output) => Find(arguments, output, found => found.Name)),
        new("num(thing)", 1, 1, (arguments, output) => Find(arguments, output, found => found.Reference)),
        new("loc(thing)", 1, 1, (arguments, output) => Find(arguments, output, found => $"#{found.LocationId}")),
        new("lwho()", 0, 0, ListPlayers),
        new("time()", 0, 0, Time),
    ];

    private static void Find(FunctionArguments arguments, StringBuilder output, Func<SoftcodeObject, string> read)
    {
        var evaluation = arguments.Evaluation;
        var isFound = evaluation.World.TryFind(evaluation.Enactor, arguments[0].Trim(), out var found);
        evaluation.Append(output, isFound ? read(found) : "#-1 NO MATCH");
    }

    private static void ListPlayers(FunctionArguments arguments, StringBuilder output)
    {
        var players = arguments.Evaluation.World.ConnectedPlayers.ToArray();
        arguments.Evaluation.Budget.Work(2L * players.Length);
        arguments.Evaluation.Append(output, string.Join(' ', players));
    }

    private static void Time(FunctionArguments arguments, StringBuilder output)
    {
        var now = arguments.Evaluation.TimeProvider.GetLocalNow();
        arguments.Evaluation.Append(output, now.ToString("ddd MMM dd HH:mm:ss yyyy", CultureInfo.InvariantCulture));
    }
}
