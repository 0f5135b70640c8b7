using System.Buffers.Text;
using System.Text;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Filters a client's GMCP message so that its strings are clean after their decoding too: JSON may write any character as an escape sequence (RFC 8259, section 7).</summary>
internal static class GmcpText
{
    // A backslash, a u and four hexadecimal digits.
    private const int UnicodeEscapeBytes = 6;

    /// <summary>Filters a message.</summary>
    /// <param name="message">The message as it was sent.</param>
    /// <param name="destination">Gets the filtered message; <see cref="PlayerText.GetMaxBytes"/> bytes suffice.</param>
    /// <returns>The length of the filtered message in bytes.</returns>
    public static int Filter(ReadOnlySpan<byte> message, Span<byte> destination) => FilterEscapes(destination[..PlayerText.Filter(message, destination)]);

    /// <summary>Filters the characters that are written as escape sequences, in place: none becomes longer.</summary>
    private static int FilterEscapes(Span<byte> text)
    {
        var written = 0;
        var rest = text;
        while (rest.IndexOf((byte)'\\') is var plain and >= 0)
        {
            rest[..plain].CopyTo(text[written..]);
            written += plain;
            rest = rest[plain..];
            var isValid = TryReadEscape(rest, out var length, out var character);
            var filtered = character;
            if (PlayerText.TryFilter(ref filtered, keepsLineFeeds: false))
            {
                if (isValid && filtered == character)
                    rest[..length].CopyTo(text[written..]);
                written += isValid && filtered == character ? length : filtered.EncodeToUtf8(text[written..]);
            }

            rest = rest[length..];
        }

        rest.CopyTo(text[written..]);
        return written + rest.Length;
    }

    /// <summary>Reads the escape sequence at the start of the text, or two that are the surrogates of one character.</summary>
    /// <returns>False when it is none. The character then replaces it: a lone backslash must not stay, because what is removed behind it could make it an escape sequence.</returns>
    private static bool TryReadEscape(ReadOnlySpan<byte> text, out int length, out Rune character)
    {
        (length, character) = (2, default);
        switch (text.Length > 1 ? (char)text[1] : ' ')
        {
            case '"' or '\\' or '/':
                character = new Rune((char)text[1]);
                return true;
            case 'b' or 'f' or 'n' or 'r' or 't':
                character = new Rune("\b\f\n\r\t"["bfnrt".IndexOf((char)text[1], StringComparison.Ordinal)]);
                return true;
            case 'u' when TryReadUnit(text, out var unit):
                return TryReadCharacter(text[UnicodeEscapeBytes..], unit, out length, out character);
            default:
                (length, character) = (1, new Rune(' '));
                return false;
        }
    }

    private static bool TryReadCharacter(ReadOnlySpan<byte> next, char unit, out int length, out Rune character)
    {
        length = UnicodeEscapeBytes;
        if (Rune.TryCreate(unit, out character))
            return true;
        if (TryReadUnit(next, out var second) && Rune.TryCreate(unit, second, out character))
        {
            length = 2 * UnicodeEscapeBytes;
            return true;
        }

        character = Rune.ReplacementChar;
        return false;
    }

    private static bool TryReadUnit(ReadOnlySpan<byte> text, out char unit)
    {
        unit = default;
        if (text.Length < UnicodeEscapeBytes || text[0] != '\\' || text[1] != 'u')
            return false;
        var isNumber = Utf8Parser.TryParse(text[2..UnicodeEscapeBytes], out ushort value, out var digits, 'X') && digits == UnicodeEscapeBytes - 2;
        unit = (char)value;
        return isNumber;
    }
}
