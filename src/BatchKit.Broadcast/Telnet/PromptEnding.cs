namespace BatchKit.Broadcast.Telnet;

/// <summary>What follows a prompt on a telnet wire.</summary>
internal enum PromptEnding
{
    /// <summary>Nothing: go-ahead is suppressed (RFC 858) and end-of-record was not agreed on.</summary>
    None = 0,

    /// <summary>IAC GA (RFC 854).</summary>
    GoAhead = 1,

    /// <summary>IAC EOR (RFC 885).</summary>
    EndOfRecord = 2,
}
