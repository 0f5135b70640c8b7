using System.Text;
using BatchKit.Broadcast.Tests.WebSockets;

namespace BatchKit.Broadcast.Tests.Texts;

/// <summary>A way by which a client's text gets to a handler.</summary>
public enum TextDoor
{
    TcpLine = 0,
    TelnetLine = 1,
    Gmcp = 2,
    GmcpEscape = 3,
    Msdp = 4,
    WebSocketText = 5,
    WebSocketBinary = 6,
    TerminalType = 7,
    Environment = 8,
}

internal static class TextDoors
{
    private static readonly byte[] AgreesToGmcp = [0xFF, 0xFD, 0xC9];
    private static readonly byte[] AgreesToMsdp = [0xFF, 0xFD, 0x45];

    private static readonly byte[] AgreesToEnvironment = [0xFF, 0xFB, 0x27];

    // Anew, so that each text is asked for.
    private static readonly byte[] AgreesToTerminalType = [0xFF, 0xFC, 0x18, 0xFF, 0xFB, 0x18];

    public static ClientProtocol ProtocolOf(TextDoor door) => door switch
    {
        TextDoor.TcpLine => ClientProtocol.Tcp,
        TextDoor.WebSocketText or TextDoor.WebSocketBinary => ClientProtocol.WebSocket,
        _ => ClientProtocol.Telnet,
    };

    /// <summary>A text as a client sends it through a door.</summary>
    public static byte[] Encode(TextDoor door, string text)
    {
        var bytes = Encoding.UTF8.GetBytes(text);
        return door switch
        {
            TextDoor.Gmcp => [.. AgreesToGmcp, .. Subnegotiation(0xC9, [.. "Chat.Say {\"text\":\""u8, .. bytes, .. "\"}"u8])],
            TextDoor.GmcpEscape => [.. AgreesToGmcp, .. Subnegotiation(0xC9, Encoding.UTF8.GetBytes($"Chat.Say {{\"text\":\"{HostileText.Escape(text)}\"}}"))],
            TextDoor.Msdp => [.. AgreesToMsdp, .. Subnegotiation(0x45, [1, .. "SAY"u8, 2, .. bytes])],
            TextDoor.TerminalType => [.. AgreesToTerminalType, .. TypeOf(bytes), .. TypeOf([.. "z"u8, .. bytes]), .. TypeOf([.. "MTTS 1"u8])],
            TextDoor.Environment =>
            [
                .. AgreesToEnvironment,
                .. Subnegotiation(0x27, [0, 0, .. "CLIENT_NAME"u8, 1, .. Escaped(bytes), 3, .. "CLIENT_VERSION"u8, 1, .. Escaped(bytes), 0, .. "TERMINAL_TYPE"u8, 1, .. bytes]),
            ],
            TextDoor.WebSocketText => RawFrame.Masked(RawFrame.Final | RawFrame.Text, bytes),
            TextDoor.WebSocketBinary => RawFrame.Masked(RawFrame.Final | RawFrame.Binary, bytes),
            _ => [.. bytes, (byte)'\r', (byte)'\n'],
        };
    }

    // RFC 1572: an ESC before each byte that is a mark.
    private static byte[] Escaped(byte[] value) => [.. value.SelectMany(letter => letter < 4 ? new byte[] { 2, letter } : [letter])];

    private static byte[] TypeOf(byte[] name) => Subnegotiation(0x18, [0, .. name]);

    private static byte[] Subnegotiation(byte option, byte[] body) => [0xFF, 0xFA, option, .. body, 0xFF, 0xF0];
}
