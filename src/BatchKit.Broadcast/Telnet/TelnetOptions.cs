using System.ComponentModel.DataAnnotations;
using System.IO.Compression;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Settings of telnet connections. Read when a connection starts.</summary>
public sealed class TelnetOptions
{
    /// <summary>What is agreed to when the client asks for it or answers an offer; all by default. Anything else is refused.</summary>
    [EnumDataType(typeof(TelnetFeatures))]
    public TelnetFeatures Supported { get; set; } = TelnetFeatures.All;

    /// <summary>
    /// What the server asks for when a connection starts, as far as it is supported; all but <see cref="TelnetFeatures.SuppressGoAhead"/> by default, because offering that makes
    /// the usual <c>telnet</c> program send each key by itself. <see cref="TelnetFeatures.None"/> keeps the start clean for clients that are not telnet's, such as <c>nc</c>.
    /// </summary>
    [EnumDataType(typeof(TelnetFeatures))]
    public TelnetFeatures Offered { get; set; } = TelnetFeatures.All & ~TelnetFeatures.SuppressGoAhead;

    /// <summary>How text is encoded until the client asks for another charset; UTF-8 by default.</summary>
    [EnumDataType(typeof(TelnetCharset))]
    public TelnetCharset InitialCharset { get; set; }

    /// <summary>
    /// True to end prompts with IAC GA (RFC 854) while neither end-of-record nor its suppression is agreed on, the default. False for clients that are not
    /// telnet's: they show it as two odd characters.
    /// </summary>
    public bool SendsGoAhead { get; set; } = true;

    /// <summary>How hard output is compressed where <see cref="TelnetFeatures.Compression"/> is agreed on; <see cref="CompressionLevel.Optimal"/> by default.</summary>
    [EnumDataType(typeof(CompressionLevel))]
    public CompressionLevel CompressionLevel { get; set; }

    /// <summary>
    /// True to keep the prompt last: a line that is sent while the prompt shows starts on a new line, and the prompt is sent again behind it, unless the user sent a line
    /// to which an answer, ending with a prompt, is still to come. False by default.
    /// </summary>
    public bool RepeatsPrompt { get; set; }
}
