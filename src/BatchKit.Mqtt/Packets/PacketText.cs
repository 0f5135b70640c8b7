using System.Text;

namespace BatchKit.Mqtt.Packets;

/// <summary>The rules of texts (MQTT 5, section 1.5.4), before they are written and after they were received.</summary>
internal static class PacketText
{
    /// <summary>The most bytes of a text or of binary data.</summary>
    public const int MaxBytes = ushort.MaxValue;

    /// <summary>Throws where the usual encoding would write U+FFFD, so that no text ever turns into another one.</summary>
    public static readonly Encoding Strict = new UTF8Encoding(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    /// <summary>What is wrong with a text that is to be written, as the end of a sentence; null when nothing is.</summary>
    public static string? FindFault(string? text)
    {
        if (text is null)
            return "is missing";
        if (text.Contains('\0', StringComparison.Ordinal))
            return "holds a NUL";
        if (text.AsSpan().ContainsAnyInRange('\uD800', '\uDFFF') && HasHalfPair(text))
            return "holds half a surrogate pair";
        return text.Length > MaxBytes / 3 && Encoding.UTF8.GetByteCount(text) > MaxBytes ? $"has more than {MaxBytes} bytes in UTF-8" : null;
    }

    /// <summary>True when bytes that were received are a text.</summary>
    public static bool IsValid(ReadOnlySpan<byte> utf8) => System.Text.Unicode.Utf8.IsValid(utf8) && !utf8.Contains((byte)0);

    private static bool HasHalfPair(string text)
    {
        for (var index = 0; index < text.Length; index++)
        {
            if (!char.IsSurrogate(text[index]))
                continue;
            if (index + 1 == text.Length || !char.IsSurrogatePair(text[index], text[index + 1]))
                return true;
            index++;
        }

        return false;
    }
}
