namespace MudServer.Softcode;

/// <summary>How much one line of a player's input may make the server do, and all lines of a player in a time.</summary>
internal sealed record SoftcodeLimits
{
    public static SoftcodeLimits Standard { get; } = new();

    /// <summary>Functions called, loop rounds and commands run, in all.</summary>
    public int MaxSteps { get; init; } = 100_000;

    /// <summary>Brackets in brackets, and commands in commands.</summary>
    public int MaxDepth { get; init; } = 50;

    /// <summary>The longest text that an expression may make.</summary>
    public int MaxTextCharacters { get; init; } = 256 * 1024;

    /// <summary>Characters made by all expressions together.</summary>
    public int MaxTotalCharacters { get; init; } = 16 * 1024 * 1024;

    /// <summary>Characters sent to players.</summary>
    public int MaxOutputCharacters { get; init; } = 1024 * 1024;

    /// <summary>What a player may use at once of all lines together, in units: a step is one, and so are 500 characters or 20 of what <see cref="SoftcodeBudget.Work"/> counts.</summary>
    public int MaxUnits { get; init; } = 100_000;

    /// <summary>What of it comes back each second.</summary>
    public int UnitsPerSecond { get; init; } = 20_000;

    /// <summary>What all players together may use at once. A unit takes at most half a microsecond, so this holds up the other players for 50 ms at most.</summary>
    public int MaxSharedUnits { get; init; } = 100_000;

    /// <summary>What of that comes back each second.</summary>
    public int SharedUnitsPerSecond { get; init; } = 400_000;

    /// <summary>What a line may use although all players together have used their share, if its player has not: enough for a plain command.</summary>
    public int UnsharedUnitsOfLine { get; init; } = 500;
}
