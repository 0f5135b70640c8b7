namespace BatchKit.Broadcast.Telnet;

/// <summary>The bytes of telnet's commands (RFC 854, RFC 885) and options.</summary>
internal static class TelnetCode
{
    public const byte EndOfRecord = 239;
    public const byte SubnegotiationEnd = 240;
    public const byte AreYouThere = 246;
    public const byte EraseCharacter = 247;
    public const byte EraseLine = 248;
    public const byte GoAhead = 249;
    public const byte Subnegotiation = 250;
    public const byte Will = 251;
    public const byte Wont = 252;
    public const byte Do = 253;
    public const byte Dont = 254;
    public const byte Interpret = 255;

    public const byte EchoOption = 1;
    public const byte SuppressGoAheadOption = 3;
    public const byte TerminalTypeOption = 24;
    public const byte EndOfRecordOption = 25;
    public const byte WindowSizeOption = 31;
    public const byte EnvironmentOption = 39;
    public const byte CharsetOption = 42;
    public const byte MsdpOption = 69;
    public const byte ServerStatusOption = 70;
    public const byte CompressionOption = 86;
    public const byte InputCompressionOption = 87;
    public const byte GmcpOption = 201;

    /// <summary>IAC NOP.</summary>
    public static ReadOnlySpan<byte> KeepAlive => [255, 241];
}
