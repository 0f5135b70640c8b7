namespace BatchKit.Broadcast.Telnet;

/// <summary>What a telnet client reported about itself. It is safe to read from any thread, and changes when the client reports more.</summary>
public sealed class TelnetTerminal
{
    /// <summary>The encoding of its text; <see cref="TelnetOptions.InitialCharset"/> unless the client asked for another (RFC 2066), or named another (MNES).</summary>
    public TelnetCharset Charset { get; internal set; }

    /// <summary>The window's width in characters; 0 when not reported (NAWS, RFC 1073).</summary>
    public int Width { get; internal set; }

    /// <summary>The window's height in lines; 0 when not reported.</summary>
    public int Height { get; internal set; }

    /// <summary>
    /// The terminal's type as the client names it, printable ASCII of at most 40 bytes; null when not reported (TTYPE, RFC 1091). It is the first name that the client sends, and for a client that
    /// follows MTTS the second, because its first is <see cref="ClientName"/>.
    /// </summary>
    public string? Type { get; internal set; }

    /// <summary>The client program's name, such as <c>MUDLET</c>, printable ASCII of at most 40 bytes; null when not reported (MTTS).</summary>
    public string? ClientName { get; internal set; }

    /// <summary>The client program's version, printable ASCII of at most 40 bytes; null when not reported (NEW-ENVIRON, RFC 1572, with the variables of MNES).</summary>
    public string? ClientVersion { get; internal set; }

    /// <summary>What the client reports that it can do (MTTS); <see cref="TerminalCapabilities.None"/> when not reported.</summary>
    public TerminalCapabilities Capabilities { get; internal set; }

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

/// <summary>What a telnet client can do, as it says by MTTS, the Mud Terminal Type Standard (https://tintin.mudhalla.net/protocols/mtts/). Nothing of it is checked.</summary>
[Flags]
public enum TerminalCapabilities
{
    /// <summary>Nothing was reported.</summary>
    None = 0,

    /// <summary>It shows the common ANSI colours.</summary>
    Ansi = 1,

    /// <summary>It supports most codes of a VT100.</summary>
    Vt100 = 2,

    /// <summary>It shows UTF-8.</summary>
    Utf8 = 4,

    /// <summary>It shows 256 colours.</summary>
    Colors256 = 8,

    /// <summary>It reports the mouse as xterm does.</summary>
    MouseTracking = 16,

    /// <summary>It supports OSC sequences and the palette of colours that they set.</summary>
    OscColorPalette = 32,

    /// <summary>Its user has the screen read aloud.</summary>
    ScreenReader = 64,

    /// <summary>It is a proxy, through which several users may connect.</summary>
    Proxy = 128,

    /// <summary>It shows 24-bit colours.</summary>
    TrueColor = 256,

    /// <summary>It supports MNES, the Mud New-Environ Standard.</summary>
    Mnes = 512,

    /// <summary>It supports MSLP, the Mud Server Link Protocol.</summary>
    Mslp = 1024,

    /// <summary>It supports TLS.</summary>
    Ssl = 2048,

    /// <summary>All of them.</summary>
    All = Ansi | Vt100 | Utf8 | Colors256 | MouseTracking | OscColorPalette | ScreenReader | Proxy | TrueColor | Mnes | Mslp | Ssl,
}
