using System.Buffers;
using System.Text;
using System.Text.Unicode;

namespace BatchKit.Mqtt.Packets;

/// <summary>Validates texts to be written and received texts (MQTT 5, section 1.5.4).</summary>
internal static class PacketText
{
    /// <summary>The maximum size of a text or of binary data.</summary>
    public const int MaxBytes = ushort.MaxValue;

    /// <summary>Throws for invalid text, which the usual encoding would replace by U+FFFD, so that no text is changed silently.</summary>
    public static readonly Encoding Strict = new UTF8Encoding(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    /// <summary>What is wrong with a text to be written, as the end of a sentence; null when it is valid.</summary>
    /// <remarks>
    /// Control characters and non-characters are refused too. The protocol allows a broker to close the connection because of them, and Mosquitto does; a QoS 1 message that is sent
    /// again after that would close every later connection.
    /// </remarks>
    public static string? FindFault(string? text)
    {
        if (text is null)
            return "is missing";
        if (text.AsSpan().ContainsAnyExceptInRange(' ', '~') && FindFaultBeyondAscii(text) is { } fault)
            return fault;
        return text.Length > MaxBytes / 3 && Encoding.UTF8.GetByteCount(text) > MaxBytes ? $"has more than {MaxBytes} bytes in UTF-8" : null;
    }

    /// <summary>What is wrong with a character to be written, as the end of a sentence; null when it is valid.</summary>
    public static string? FindFault(Rune rune)
    {
        if (Rune.IsControl(rune))
            return "holds a control character";
        return (rune.Value & 0xFFFE) == 0xFFFE || rune.Value is >= 0xFDD0 and <= 0xFDEF ? "holds a code point that is no character" : null;
    }

    /// <summary>True when received bytes are a valid text.</summary>
    public static bool IsValid(ReadOnlySpan<byte> utf8) => Utf8.IsValid(utf8) && !utf8.Contains((byte)0);

    private static string? FindFaultBeyondAscii(ReadOnlySpan<char> text)
    {
        while (!text.IsEmpty)
        {
            if (Rune.DecodeFromUtf16(text, out var rune, out var characters) != OperationStatus.Done)
                return "holds half a surrogate pair";
            if (FindFault(rune) is { } fault)
                return fault;
            text = text[characters..];
        }

        return null;
    }
}
