namespace BatchKit.Broadcast.Telnet;

/// <summary>How a telnet client's text is encoded (RFC 2066).</summary>
public enum TelnetCharset
{
    /// <summary>UTF-8, what BatchKit's messages are in.</summary>
    Utf8 = 0,

    /// <summary>ISO 8859-1; what it lacks is sent as a question mark.</summary>
    Latin1 = 1,

    /// <summary>ASCII; what it lacks is sent as a question mark.</summary>
    Ascii = 2,
}
