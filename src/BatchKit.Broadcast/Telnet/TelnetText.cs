using System.Text;
using System.Text.Unicode;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Makes UTF-8 of what a client typed: without control characters, and with U+FFFD for what is no text in its charset.</summary>
internal static class TelnetText
{
    private const byte LastOfAscii = 127;

    // U+0080 to U+009F, which terminals obey like escape sequences, begin with this byte; so do a few letters.
    private const byte FirstOfControls = 0xC2;

    // U+FFFD takes three bytes, and may stand for one.
    private const int MaxGrowth = 3;

    public static int GetMaxBytes(int bytes) => MaxGrowth * bytes;

    /// <summary>True when text without control characters of ASCII is UTF-8 as it is.</summary>
    public static bool IsClean(ReadOnlySpan<byte> text, TelnetCharset charset) =>
        Ascii.IsValid(text) || (charset == TelnetCharset.Utf8 && !text.Contains(FirstOfControls) && Utf8.IsValid(text));

    public static int ToUtf8(ReadOnlySpan<byte> text, TelnetCharset charset, Span<byte> destination)
    {
        var written = 0;
        while (!text.IsEmpty)
        {
            var plain = text.IndexOfAnyExceptInRange((byte)0, LastOfAscii);
            plain = plain < 0 ? text.Length : plain;
            text[..plain].CopyTo(destination[written..]);
            written += plain;
            text = text[plain..];
            if (text.IsEmpty)
                break;
            var rune = TakeRune(ref text, charset);
            if (!Rune.IsControl(rune))
                written += rune.EncodeToUtf8(destination[written..]);
        }

        return written;
    }

    private static Rune TakeRune(ref ReadOnlySpan<byte> text, TelnetCharset charset)
    {
        var (rune, bytes) = (Rune.ReplacementChar, 1);
        if (charset == TelnetCharset.Utf8)
            Rune.DecodeFromUtf8(text, out rune, out bytes);
        else if (charset == TelnetCharset.Latin1)
            rune = new Rune(text[0]);
        text = text[bytes..];
        return rune;
    }
}
