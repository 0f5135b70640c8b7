namespace BatchKit.Broadcast.Telnet;

/// <summary>What a telnet server and its client may agree on.</summary>
[Flags]
public enum TelnetFeatures
{
    /// <summary>Nothing: each request is refused.</summary>
    None = 0,

    /// <summary>No go-ahead behind prompts (SUPPRESS-GO-AHEAD, RFC 858).</summary>
    SuppressGoAhead = 1,

    /// <summary>An end-of-record behind prompts, by which MUD clients tell a prompt from a line (END-OF-RECORD, RFC 885).</summary>
    EndOfRecord = 2,

    /// <summary>Structured messages beside the text (GMCP, option 201).</summary>
    Gmcp = 4,

    /// <summary>Compressed output (MCCP2, option 86). A client that uses it costs about 300 KB of memory. Leave it out where TLS hides secrets that a stranger's text stands beside: their length tells of them.</summary>
    Compression = 8,

    /// <summary>The choice of UTF-8, ISO 8859-1 or ASCII (CHARSET, RFC 2066).</summary>
    Charset = 16,

    /// <summary>The client tells its window's size (NAWS, RFC 1073).</summary>
    WindowSize = 32,

    /// <summary>The client tells its terminal's type (TERMINAL-TYPE, RFC 1091).</summary>
    TerminalType = 64,

    /// <summary>All of them.</summary>
    All = SuppressGoAhead | EndOfRecord | Gmcp | Compression | Charset | WindowSize | TerminalType,
}
