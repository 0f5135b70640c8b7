namespace BatchKit.Broadcast.Telnet;

/// <summary>Headers of messages that only telnet clients understand.</summary>
public static class TelnetMessages
{
    /// <summary>The content type of a GMCP message.</summary>
    public const string GmcpContentType = "application/vnd.gmcp";

    /// <summary>
    /// Says that the payload is a GMCP message: its package name, a space, and its JSON, as in <c>Char.Vitals {"hp":7}</c>. Clients that did not agree on GMCP,
    /// and those that are not telnet's, do not get it.
    /// </summary>
    public static MessageHeader Gmcp { get; } = new() { ContentType = GmcpContentType };
}
