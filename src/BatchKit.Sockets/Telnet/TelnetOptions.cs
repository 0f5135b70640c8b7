using System.ComponentModel.DataAnnotations;
using System.IO.Compression;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Settings of telnet connections. They are read when a connection starts.</summary>
public sealed class TelnetOptions
{
    /// <summary>The features that the server agrees to; all but <see cref="TelnetFeatures.Msdp"/> by default. It refuses all others.</summary>
    [EnumDataType(typeof(TelnetFeatures))]
    public TelnetFeatures Supported { get; set; } = TelnetFeatures.All & ~TelnetFeatures.Msdp;

    /// <summary>
    /// The features that the server offers when a connection starts, if they are supported; all but <see cref="TelnetFeatures.SuppressGoAhead"/> by default, because that offer makes
    /// the usual <c>telnet</c> program send each key separately. Use <see cref="TelnetFeatures.None"/> for clients that do not speak telnet, such as <c>nc</c>: they would show the offers as odd characters.
    /// </summary>
    [EnumDataType(typeof(TelnetFeatures))]
    public TelnetFeatures Offered { get; set; } = TelnetFeatures.All & ~TelnetFeatures.SuppressGoAhead;

    /// <summary>
    /// Returns what the server reports about itself by MSSP, such as <c>NAME</c>, <c>PLAYERS</c> and <c>UPTIME</c>; null, the default, for no MSSP. Consecutive entries with the same name give it several values; entries with null are left out.
    /// </summary>
    /// <remarks>It is called for each client that asks, on the thread that reads it: return at once. An exception disconnects that client.</remarks>
    public Func<IEnumerable<KeyValuePair<string, string>>>? ServerStatus { get; set; }

    /// <summary>The charset of text until the client asks for another; UTF-8 by default.</summary>
    [EnumDataType(typeof(TelnetCharset))]
    public TelnetCharset InitialCharset { get; set; }

    /// <summary>
    /// True, the default, to end prompts with IAC GA (RFC 854) as long as neither end-of-record nor the suppression of go-ahead is agreed. Use false for clients that do not speak
    /// telnet: they show it as two odd characters.
    /// </summary>
    public bool SendsGoAhead { get; set; } = true;

    /// <summary>The level of compression when <see cref="TelnetFeatures.Compression"/> is agreed; <see cref="CompressionLevel.Optimal"/> by default.</summary>
    [EnumDataType(typeof(CompressionLevel))]
    public CompressionLevel CompressionLevel { get; set; }

    /// <summary>
    /// True to keep the prompt at the end of the screen: a line that is sent while the prompt shows starts on a new line, and the prompt is sent again after it. It is not sent again
    /// while the user waits for an answer to a line, because that answer ends with a prompt; no answer is expected five seconds after the last line, or one second after a prompt. False by default.
    /// </summary>
    public bool RepeatsPrompt { get; set; }
}

/// <summary>What a telnet server and its client may agree to use.</summary>
[Flags]
public enum TelnetFeatures
{
    /// <summary>None: every request is refused.</summary>
    None = 0,

    /// <summary>No go-ahead after prompts (SUPPRESS-GO-AHEAD, RFC 858).</summary>
    SuppressGoAhead = 1,

    /// <summary>An end-of-record after each prompt, so that MUD clients can tell a prompt from a line (END-OF-RECORD, RFC 885).</summary>
    EndOfRecord = 2,

    /// <summary>Structured messages besides text (GMCP, option 201).</summary>
    Gmcp = 4,

    /// <summary>Compressed output (MCCP2, option 86). Each write is compressed by itself, so many lines in one scope shrink more than single ones; <see cref="BroadcastOptions.MaxCompressedConnections"/> limits how many clients use it. Do not support it over TLS when secrets are sent together with text that others write: the compressed length can reveal them.</summary>
    Compression = 8,

    /// <summary>The choice of UTF-8, ISO 8859-1 or ASCII (CHARSET, RFC 2066).</summary>
    Charset = 16,

    /// <summary>The client reports the size of its window (NAWS, RFC 1073).</summary>
    WindowSize = 32,

    /// <summary>The client reports the type of its terminal (TERMINAL-TYPE, RFC 1091), its name and its capabilities (MTTS).</summary>
    TerminalType = 64,

    /// <summary>What the server reports about itself, for MUD lists (MSSP, option 70). It needs <see cref="TelnetOptions.ServerStatus"/>.</summary>
    ServerStatus = 128,

    /// <summary>Variables besides text (MSDP, option 69), which older clients use instead of GMCP.</summary>
    Msdp = 256,

    /// <summary>
    /// The client reports its name, version, charset, terminal and capabilities (NEW-ENVIRON, RFC 1572, with the variables of MNES, https://tintin.mudhalla.net/protocols/mnes/). Nothing else is asked for or heard: no
    /// user's name, and no IPADDRESS, because a client may claim any.
    /// </summary>
    Environment = 512,

    /// <summary>
    /// Compressed input (MCCP3, option 87). <see cref="InputLimits"/> and <see cref="BroadcastOptions.MaxUnauthenticatedBytes"/> count what it is inflated to. <see cref="BroadcastOptions.MaxCompressedConnections"/> limits how
    /// many clients use it; it is not offered while that limit is reached. Input that can't be inflated, or that is compressed without agreement, disconnects the client.
    /// </summary>
    InputCompression = 1024,

    /// <summary>All of them.</summary>
    All = SuppressGoAhead | EndOfRecord | Gmcp | Compression | Charset | WindowSize | TerminalType | ServerStatus | Msdp | Environment | InputCompression,
}

/// <summary>The encoding of a telnet client's text (RFC 2066).</summary>
public enum TelnetCharset
{
    /// <summary>UTF-8, the encoding of BatchKit's messages.</summary>
    Utf8 = 0,

    /// <summary>ISO 8859-1; each character that it lacks is sent as a question mark.</summary>
    Latin1 = 1,

    /// <summary>ASCII; each character that it lacks is sent as a question mark.</summary>
    Ascii = 2,
}
