using System.Text;
using System.Text.Unicode;

namespace BatchKit.Broadcast.Telnet;

/// <summary>The line that a client is typing, in its own charset.</summary>
internal sealed class TelnetLine(int maxBytes)
{
    private const int FirstBytes = 128;

    // The most that is kept for an idle client.
    private const int MaxKeptBytes = 1024;

    private byte[] _bytes = [];
    private int _length;

    public ReadOnlySpan<byte> Text => _bytes.AsSpan(0, _length);

    public bool IsEmpty => _length == 0 && !IsTooLong;

    /// <summary>True when the line is longer than allowed; the rest of it is discarded.</summary>
    public bool IsTooLong { get; private set; }

    public void Append(ReadOnlySpan<byte> text)
    {
        if (IsTooLong)
            return;
        if (text.Length > maxBytes - _length)
        {
            Clear();
            IsTooLong = true;
            return;
        }

        if (_bytes.Length < _length + text.Length)
            Array.Resize(ref _bytes, (int)Math.Clamp(2L * (_length + text.Length), Math.Min(FirstBytes, maxBytes), maxBytes));
        text.CopyTo(_bytes.AsSpan(_length));
        _length += text.Length;
    }

    /// <summary>Deletes the last character, which may be several bytes in UTF-8.</summary>
    public void RubOut(TelnetCharset charset)
    {
        if (_length == 0)
            return;
        var bytes = 1;
        if (charset == TelnetCharset.Utf8)
            Rune.DecodeLastFromUtf8(Text, out _, out bytes);
        _length -= bytes;
    }

    /// <summary>Starts an empty line.</summary>
    public void Clear()
    {
        (_length, IsTooLong) = (0, false);
        if (_bytes.Length > MaxKeptBytes)
            _bytes = [];
    }
}

/// <summary>Converts what a client typed to UTF-8, with U+FFFD for bytes that are invalid in its charset, and filters it (<see cref="PlayerText"/>) if it is to be filtered.</summary>
internal static class TelnetText
{
    private const byte LastOfAscii = 127;

    /// <summary>True when text without ASCII control characters needs no conversion.</summary>
    public static bool IsClean(ReadOnlySpan<byte> text, TelnetCharset charset, bool isFiltered)
    {
        if (Ascii.IsValid(text))
            return true;
        return charset == TelnetCharset.Utf8 && (isFiltered ? PlayerText.IsClean(text) : Utf8.IsValid(text));
    }

    public static int ToUtf8(ReadOnlySpan<byte> text, TelnetCharset charset, bool isFiltered, Span<byte> destination)
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
            if (!isFiltered || PlayerText.TryFilter(ref rune, keepsLineFeeds: false))
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
