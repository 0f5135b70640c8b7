namespace MudServer.Game.Commands;

/// <summary>A command: its name, its usage and what it does.</summary>
internal sealed record Command(string Name, string Usage, string Summary, Func<CommandCall, ValueTask> RunAsync)
{
    /// <summary>Its other names.</summary>
    public IReadOnlyList<string> Aliases { get; init; } = [];

    /// <summary>The lines that <c>help</c> with its name adds.</summary>
    public IReadOnlyList<string> Examples { get; init; } = [];
}
