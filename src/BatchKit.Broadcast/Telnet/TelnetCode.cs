namespace BatchKit.Broadcast.Telnet;

/// <summary>The bytes of telnet's commands (RFC 854).</summary>
internal static class TelnetCode
{
    /// <summary>IAC NOP.</summary>
    public static ReadOnlySpan<byte> KeepAlive => [255, 241];
}
