namespace BatchKit.Broadcast.Telnet;

/// <summary>Headers for messages that only telnet clients understand.</summary>
public static class TelnetMessages
{
    /// <summary>The content type of a GMCP message.</summary>
    public const string GmcpContentType = "application/vnd.gmcp";

    /// <summary>
    /// Marks the payload as a GMCP message: its package name, a space, and its JSON, as in <c>Char.Vitals {"hp":7}</c>. Only telnet clients that agreed to GMCP
    /// get it.
    /// </summary>
    public static MessageHeader Gmcp { get; } = new() { ContentType = GmcpContentType };
}
