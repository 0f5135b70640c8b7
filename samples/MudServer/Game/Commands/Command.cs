namespace MudServer.Game.Commands;

/// <summary>A command: its name, how it is used, what it does.</summary>
internal sealed record Command(string Name, string Usage, string Summary, Func<CommandCall, ValueTask> RunAsync)
{
    /// <summary>Other words for it.</summary>
    public IReadOnlyList<string> Aliases { get; init; } = [];

    /// <summary>What <c>help</c> with its name adds.</summary>
    public IReadOnlyList<string> Examples { get; init; } = [];
}
