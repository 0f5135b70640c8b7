namespace BatchKit.Tool;

/// <summary>What the tool ends with; part of its contract with scripts.</summary>
internal static class ExitCodes
{
    public const int Done = 0;

    /// <summary>The server could not be reached or refused, there is no such queue, or the question was answered with no.</summary>
    public const int Failed = 1;

    /// <summary>The command line can't be followed; nothing was asked of the server.</summary>
    public const int Usage = 2;

    /// <summary>Ctrl-C: 128 and the signal's number, as shells count.</summary>
    public const int Interrupted = 130;
}
