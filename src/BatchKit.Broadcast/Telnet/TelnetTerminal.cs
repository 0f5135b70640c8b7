namespace BatchKit.Broadcast.Telnet;

/// <summary>What a telnet client told of itself. Read it from any thread; it changes as the client tells more.</summary>
public sealed class TelnetTerminal
{
    /// <summary>How its text is encoded; UTF-8 unless it asked for another (RFC 2066).</summary>
    public TelnetCharset Charset { get; internal set; }

    /// <summary>The window's width in characters; 0 when it was not told (NAWS, RFC 1073).</summary>
    public int Width { get; internal set; }

    /// <summary>The window's height in lines; 0 when it was not told.</summary>
    public int Height { get; internal set; }

    /// <summary>The terminal's type as the client names it, printable ASCII of at most 40 bytes; null when it was not told (TTYPE, RFC 1091).</summary>
    public string? Type { get; internal set; }

    /// <summary>True when it takes GMCP messages (<see cref="TelnetMessages.Gmcp"/>).</summary>
    public bool TakesGmcp { get; internal set; }

    /// <summary>True when what it gets is compressed (MCCP2).</summary>
    public bool IsCompressed { get; internal set; }
}
