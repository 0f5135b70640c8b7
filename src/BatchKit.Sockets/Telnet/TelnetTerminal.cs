namespace BatchKit.Broadcast.Telnet;

/// <summary>What a telnet client reported about itself. It is safe to read from any thread, and changes when the client reports more.</summary>
public sealed class TelnetTerminal
{
    /// <summary>The encoding of its text; <see cref="TelnetOptions.InitialCharset"/> unless the client asked for another (RFC 2066).</summary>
    public TelnetCharset Charset { get; internal set; }

    /// <summary>The window's width in characters; 0 when not reported (NAWS, RFC 1073).</summary>
    public int Width { get; internal set; }

    /// <summary>The window's height in lines; 0 when not reported.</summary>
    public int Height { get; internal set; }

    /// <summary>The terminal's type as the client names it, printable ASCII of at most 40 bytes; null when not reported (TTYPE, RFC 1091).</summary>
    public string? Type { get; internal set; }

    /// <summary>True while it has agreed not to show what its user types (<see cref="TelnetMessages.HideInput"/>). A client without telnet never agrees.</summary>
    public bool HidesInput => Echo.IsAgreed;

    /// <summary>True once it has sent a telnet command. A client such as <c>nc</c> never does, and would show the server's commands as odd characters.</summary>
    internal bool SpeaksTelnet { get; set; }

    internal TelnetEcho Echo { get; } = new();

    /// <summary>True when it accepts GMCP messages (<see cref="TelnetMessages.Gmcp"/>).</summary>
    public bool TakesGmcp { get; internal set; }

    /// <summary>True when it accepts MSDP messages (<see cref="TelnetMessages.Msdp"/>).</summary>
    public bool TakesMsdp { get; internal set; }

    /// <summary>True when its output is compressed (MCCP2).</summary>
    public bool IsCompressed { get; internal set; }
}
