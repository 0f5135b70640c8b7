using System.Buffers;
using System.Text;
using System.Text.Unicode;

namespace BatchKit.Broadcast;

/// <summary>The filter for text that clients write and other clients read. It is on by default for telnet and for WebSocket texts, and <see cref="ReceivedRecord.GetText"/> always uses it.</summary>
/// <remarks>
/// <para>It removes control characters, and with them the start of every escape sequence, the characters that change the direction of the text after them (Unicode's bidirectional embeddings, overrides and
/// isolates), and the letters that show nothing, such as U+3164: a name of them would be invisible. A tab and everything that ends a line becomes a space, so that no one can write a line that looks like another
/// client's. Bytes that are not UTF-8 become U+FFFD.</para>
/// <para>All members are thread-safe.</para>
/// </remarks>
public static class PlayerText
{
    // U+FFFD takes three bytes and may replace one.
    private const int MaxGrowth = 3;

    /// <summary>The longest text whose filtered form always fits into one array.</summary>
    internal const int MaxTextBytes = 1 << 29;

    // All ASCII control characters, and the first bytes of all other characters that are filtered: C2 begins U+0080 to U+009F, E2 begins U+2000 to U+2FFF, the others begin letters that show nothing.
    private static readonly SearchValues<byte> Suspicious = SearchValues.Create([.. Enumerable.Range(0, ' ').Select(code => (byte)code), 0x7F, 0xC2, 0xE1, 0xE2, 0xE3, 0xEF, 0xF0]);

    /// <summary>The most bytes that filtered text can take.</summary>
    /// <param name="bytes">The length of the text in bytes.</param>
    /// <exception cref="ArgumentOutOfRangeException">It is negative, or above 512 MiB.</exception>
    public static int GetMaxBytes(int bytes)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(bytes);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(bytes, MaxTextBytes);
        return MaxGrowth * bytes;
    }

    /// <summary>Filters text in UTF-8.</summary>
    /// <param name="text">The text. It may overlap the destination when both begin at the same byte and the text is valid UTF-8.</param>
    /// <param name="destination">Gets the filtered text; <see cref="GetMaxBytes"/> bytes suffice.</param>
    /// <param name="keepsLineFeeds">True to keep line feeds, for a text that you split into lines afterwards.</param>
    /// <returns>The length of the filtered text in bytes; never more than the text's for valid UTF-8.</returns>
    public static int Filter(ReadOnlySpan<byte> text, Span<byte> destination, bool keepsLineFeeds = false)
    {
        var isValid = Utf8.IsValid(text);
        var written = 0;
        while (!text.IsEmpty)
        {
            var plain = isValid ? IndexOfFiltered(text) : 0;
            plain = plain < 0 ? text.Length : plain;
            text[..plain].CopyTo(destination[written..]);
            written += plain;
            text = text[plain..];
            if (text.IsEmpty)
                break;
            var isReturn = text is [(byte)'\r', (byte)'\n', ..];
            Rune.DecodeFromUtf8(text, out var rune, out var bytes);
            text = text[bytes..];
            if (!isReturn && TryFilter(ref rune, keepsLineFeeds))
                written += rune.EncodeToUtf8(destination[written..]);
        }

        return written;
    }

    /// <inheritdoc cref="Filter(ReadOnlySpan{byte}, Span{byte}, bool)"/>
    /// <returns>The filtered text.</returns>
    public static string Filter(string text, bool keepsLineFeeds = false)
    {
        ArgumentNullException.ThrowIfNull(text);
        var bytes = Encoding.UTF8.GetBytes(text);
        return Encoding.UTF8.GetString(bytes.AsSpan(0, Filter(bytes, bytes, keepsLineFeeds)));
    }

    /// <summary>True when the filter would change nothing.</summary>
    internal static bool IsClean(ReadOnlySpan<byte> text) => Utf8.IsValid(text) && IndexOfFiltered(text) < 0;

    /// <summary>Filters text in UTF-8.</summary>
    /// <returns>The filtered text.</returns>
    internal static string Decode(ReadOnlySpan<byte> text, bool keepsLineFeeds)
    {
        if (IsClean(text))
            return Encoding.UTF8.GetString(text);
        var filtered = new byte[GetMaxBytes(text.Length)];
        return Encoding.UTF8.GetString(filtered.AsSpan(0, Filter(text, filtered, keepsLineFeeds)));
    }

    /// <summary>Filters one character.</summary>
    /// <returns>False when it is removed.</returns>
    internal static bool TryFilter(ref Rune character, bool keepsLineFeeds)
    {
        switch (character.Value)
        {
            case '\n' when keepsLineFeeds:
                return true;
            case '\t' or '\n' or '\v' or '\f' or '\r' or 0x85 or 0x2028 or 0x2029:
                character = new Rune(' ');
                return true;
            case (>= 0x202A and <= 0x202E) or (>= 0x2066 and <= 0x2069):
                return false;

            // The fillers of Hangul and the blanks of Egyptian hieroglyphs: letters to char.IsLetter.
            case 0x115F or 0x1160 or 0x3164 or 0xFFA0 or 0x13441 or 0x13442:
                return false;
            default:
                return !Rune.IsControl(character);
        }
    }

    /// <summary>Finds the first character of valid UTF-8 that the filter changes or removes; -1 when there is none. A line feed counts, whether it is kept or not.</summary>
    private static int IndexOfFiltered(ReadOnlySpan<byte> text)
    {
        var start = 0;
        while (text[start..].IndexOfAny(Suspicious) is var plain and >= 0)
        {
            start += plain;
            Rune.DecodeFromUtf8(text[start..], out var rune, out var bytes);
            var filtered = rune;
            if (!TryFilter(ref filtered, keepsLineFeeds: false) || filtered != rune)
                return start;
            start += bytes;
        }

        return -1;
    }
}
