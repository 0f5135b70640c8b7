using System.Buffers.Text;
using System.Text;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Asks one client for the names of its terminal (RFC 1091), until a name repeats or the third has come: a client that follows MTTS, the Mud Terminal Type Standard, sends its own name, its terminal's, and its capabilities.</summary>
internal sealed class TerminalTypes(TelnetTerminal terminal)
{
    private const byte Is = 0;
    private const byte Send = 1;

    // RFC 1091 allows 40 characters.
    private const int MaxLength = 40;

    private string? _first;
    private string? _second;
    private bool _isAsked;
    private TerminalCapabilities _reported;

    private static ReadOnlySpan<byte> Request =>
    [
        TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.TerminalTypeOption, Send, TelnetCode.Interpret, TelnetCode.SubnegotiationEnd,
    ];

    private static ReadOnlySpan<byte> CapabilitiesMark => "MTTS "u8;

    /// <summary>Asks for the first name.</summary>
    public void Begin(TelnetAnswers answers)
    {
        (_first, _second) = (null, null);
        Ask(answers);
    }

    /// <summary>Reads a name that was asked for, and asks for the next one.</summary>
    public void Receive(ReadOnlySpan<byte> body, TelnetAnswers answers)
    {
        if (!_isAsked || body is not [Is, .. var sent])
            return;
        _isAsked = false;
        if (TryReadCapabilities(sent, out var capabilities))
        {
            // MNES may have reported more: TinTin++ leaves its bit out here.
            terminal.Capabilities = (terminal.Capabilities & ~_reported) | capabilities;
            _reported = capabilities;
            if (_second is not null)
                (terminal.ClientName, terminal.Type) = (_first, _second);
            return;
        }

        var name = ReadName(sent);
        if (name.Length == 0 || _second is not null || name.Equals(_first, StringComparison.OrdinalIgnoreCase))
            return;
        if (_first is null)
            terminal.Type = _first = name;
        else
            _second = name;
        Ask(answers);
    }

    /// <summary>Reads a name, without bytes that are not printable ASCII.</summary>
    public static string ReadName(ReadOnlySpan<byte> sent)
    {
        var name = new StringBuilder(MaxLength);
        foreach (var letter in sent)
        {
            if (letter is > (byte)' ' and < 127 && name.Length < MaxLength)
                name.Append((char)letter);
        }

        return name.ToString();
    }

    /// <summary>Reads capabilities as a decimal number.</summary>
    public static bool TryReadBits(ReadOnlySpan<byte> digits, out TerminalCapabilities capabilities)
    {
        // Without a sign.
        var isNumber = Utf8Parser.TryParse(digits, out uint bits, out var read) && read == digits.Length && char.IsAsciiDigit((char)digits[0]);
        capabilities = isNumber ? (TerminalCapabilities)bits & TerminalCapabilities.All : TerminalCapabilities.None;
        return isNumber;
    }

    private void Ask(TelnetAnswers answers)
    {
        _isAsked = true;
        answers.Add(Request);
    }

    /// <summary>Reads capabilities, such as <c>MTTS 137</c>. Bits without a meaning are left out.</summary>
    private static bool TryReadCapabilities(ReadOnlySpan<byte> sent, out TerminalCapabilities capabilities)
    {
        capabilities = TerminalCapabilities.None;
        return sent.StartsWith(CapabilitiesMark) && TryReadBits(sent[CapabilitiesMark.Length..], out capabilities);
    }
}
