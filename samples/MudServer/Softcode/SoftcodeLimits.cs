namespace MudServer.Softcode;

/// <summary>The limits of one line of a player's input, and of all lines of a player over time.</summary>
internal sealed record SoftcodeLimits
{
    public static SoftcodeLimits Standard { get; } = new();

    /// <summary>The most function calls, rounds of loops and commands together.</summary>
    public int MaxSteps { get; init; } = 100_000;

    /// <summary>The deepest nesting of brackets, and of commands.</summary>
    public int MaxDepth { get; init; } = 50;

    /// <summary>The longest text that an expression may produce.</summary>
    public int MaxTextCharacters { get; init; } = 256 * 1024;

    /// <summary>The most characters that all expressions together may produce.</summary>
    public int MaxTotalCharacters { get; init; } = 16 * 1024 * 1024;

    /// <summary>The most characters that may be sent to players.</summary>
    public int MaxOutputCharacters { get; init; } = 1024 * 1024;

    /// <summary>The units that all lines of a player may use at once. A step is one unit, and so are 500 characters or 20 operations of <see cref="SoftcodeBudget.Work"/>.</summary>
    public int MaxUnits { get; init; } = 100_000;

    /// <summary>The units that a player gets back each second.</summary>
    public int UnitsPerSecond { get; init; } = 20_000;

    /// <summary>The units that all players together may use at once. A unit takes at most half a microsecond, so this delays the other players by at most 50 ms.</summary>
    public int MaxSharedUnits { get; init; } = 100_000;

    /// <summary>The units that all players together get back each second.</summary>
    public int SharedUnitsPerSecond { get; init; } = 400_000;

    /// <summary>The units that a line may use when all players together have none left and its own player has some: enough for a plain command.</summary>
    public int UnsharedUnitsOfLine { get; init; } = 500;
}
