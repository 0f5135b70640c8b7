namespace MudServer.Telnet;

/// <summary>The bytes of RFC 854 that the sample knows.</summary>
internal static class TelnetCode
{
    public const byte SubnegotiationEnd = 240;
    public const byte GoAhead = 249;
    public const byte Subnegotiation = 250;
    public const byte Will = 251;
    public const byte Dont = 254;
    public const byte Interpret = 255;
}
