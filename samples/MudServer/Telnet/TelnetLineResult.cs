namespace MudServer.Telnet;

/// <summary>What reading came to.</summary>
internal enum TelnetLineResult
{
    /// <summary>There is no whole line yet.</summary>
    Incomplete = 0,

    /// <summary>A line.</summary>
    Line = 1,

    /// <summary>A line that was longer than a line may be; it is thrown away.</summary>
    TooLong = 2,
}
