namespace BatchKit.Benchmarks;

/// <summary>What the program ends with; part of its contract with scripts.</summary>
internal static class ExitCodes
{
    public const int Done = 0;

    /// <summary>A gate fell short, or something did not run. One line on the error stream says what.</summary>
    public const int Failed = 1;

    /// <summary>The command line or a file of gates can't be followed.</summary>
    public const int Usage = 2;
}
