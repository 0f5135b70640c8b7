using System.Buffers;
using System.Globalization;
using System.Text;

namespace BatchKit.Tool.Output;

/// <summary>Makes bytes and foreign text fit for a terminal: what would move its cursor or change its colours is written out.</summary>
internal static class PrintableText
{
    private const int BytesToLookAt = 1024;

    /// <summary>A text with its control characters written out.</summary>
    public static string Of(string text)
    {
        var printable = new StringBuilder(text.Length);
        foreach (var rune in text.EnumerateRunes())
        {
            _ = rune.Value switch
            {
                '\n' => printable.Append("\\n"),
                '\r' => printable.Append("\\r"),
                '\t' => printable.Append("\\t"),
                _ when IsUnprintable(rune) => printable.Append(CultureInfo.InvariantCulture, $"\\u{rune.Value:x4}"),
                _ => printable.Append(rune),
            };
        }

        return printable.ToString();
    }

    /// <summary>A payload as text when it is text, else in hexadecimal digits; the beginning of a long one.</summary>
    public static string Of(ReadOnlySpan<byte> payload)
    {
        var start = payload[..Math.Min(payload.Length, BytesToLookAt)];
        return TryRead(start, isCut: start.Length < payload.Length) is { } text ? Of(text) : $"0x{Convert.ToHexStringLower(start)}";
    }

    /// <summary>Cut to a width in columns, with an ellipsis where it was cut.</summary>
    public static string Cut(string text, int width)
    {
        if (text.Length <= width)
            return text;
        var end = width - 1;
        return $"{text[..(char.IsHighSurrogate(text[end - 1]) ? end - 1 : end)]}…";
    }

    /// <summary>The payload as a text; null when it is none.</summary>
    public static string? TryRead(ReadOnlySpan<byte> payload, bool isCut)
    {
        var text = new StringBuilder(payload.Length);
        while (!payload.IsEmpty)
        {
            var status = Rune.DecodeFromUtf8(payload, out var rune, out var length);
            // The cut may have gone through a character.
            if (status == OperationStatus.NeedMoreData && isCut)
                break;
            if (status != OperationStatus.Done || (IsUnprintable(rune) && rune.Value is not ('\n' or '\r' or '\t')))
                return null;
            text.Append(rune);
            payload = payload[length..];
        }

        return text.ToString();
    }

    // Format characters too: they turn the direction of the rest of the line, or can't be seen.
    private static bool IsUnprintable(Rune rune) => Rune.GetUnicodeCategory(rune) is UnicodeCategory.Control or UnicodeCategory.Format or UnicodeCategory.LineSeparator
        or UnicodeCategory.ParagraphSeparator or UnicodeCategory.PrivateUse or UnicodeCategory.OtherNotAssigned;
}

/// <summary>Writes an age as people say it.</summary>
internal static class AgeText
{
    /// <summary>In its two largest units.</summary>
    public static string Of(TimeSpan age) => age switch
    {
        { TotalSeconds: < 60 } => Roughly(age),
        { TotalMinutes: < 60 } => $"{Roughly(age)} {age.Seconds} s",
        { TotalHours: < 24 } => $"{Roughly(age)} {age.Minutes} min",
        _ => $"{Roughly(age)} {age.Hours} h",
    };

    /// <summary>In its largest unit.</summary>
    public static string Roughly(TimeSpan age) => age switch
    {
        { Ticks: < 0 } => "0 s",
        { TotalSeconds: < 60 } => $"{age.Seconds} s",
        { TotalMinutes: < 60 } => $"{age.Minutes} min",
        { TotalHours: < 24 } => $"{age.Hours} h",
        _ => $"{age.Days} d",
    };
}
