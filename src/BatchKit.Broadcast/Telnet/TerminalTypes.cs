using System.Text;

namespace BatchKit.Broadcast.Telnet;

/// <summary>The terminal's type (RFC 1091).</summary>
internal static class TerminalTypes
{
    private const byte Is = 0;
    private const byte Send = 1;

    // RFC 1091 allows 40 characters.
    private const int MaxLength = 40;

    public static ReadOnlySpan<byte> Request =>
    [
        TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.TerminalTypeOption, Send, TelnetCode.Interpret, TelnetCode.SubnegotiationEnd,
    ];

    /// <summary>Reads a type, without what is no printable ASCII.</summary>
    public static bool TryRead(ReadOnlySpan<byte> body, out string type)
    {
        type = string.Empty;
        if (body is not [Is, .. var name])
            return false;
        var text = new StringBuilder(MaxLength);
        foreach (var letter in name)
        {
            if (letter is > (byte)' ' and < 127 && text.Length < MaxLength)
                text.Append((char)letter);
        }

        type = text.ToString();
        return type.Length > 0;
    }
}
