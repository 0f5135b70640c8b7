using System.Buffers;
using System.Text;
using System.Text.Unicode;

namespace BatchKit.Mqtt.Packets;

/// <summary>The rules of texts (MQTT 5, section 1.5.4), before they are written and after they were received.</summary>
internal static class PacketText
{
    /// <summary>The most bytes of a text or of binary data.</summary>
    public const int MaxBytes = ushort.MaxValue;

    /// <summary>Throws where the usual encoding would write U+FFFD, so that no text ever turns into another one.</summary>
    public static readonly Encoding Strict = new UTF8Encoding(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    /// <summary>What is wrong with a text that is to be written, as the end of a sentence; null when nothing is.</summary>
    /// <remarks>
    /// Control characters and non-characters are refused too: the protocol lets a broker close the connection for them, Mosquitto does, and a message of QoS 1 that is sent
    /// again would have it closed for ever.
    /// </remarks>
    public static string? FindFault(string? text)
    {
        if (text is null)
            return "is missing";
        if (text.AsSpan().ContainsAnyExceptInRange(' ', '~') && FindFaultBeyondAscii(text) is { } fault)
            return fault;
        return text.Length > MaxBytes / 3 && Encoding.UTF8.GetByteCount(text) > MaxBytes ? $"has more than {MaxBytes} bytes in UTF-8" : null;
    }

    /// <summary>True when bytes that were received are a text.</summary>
    public static bool IsValid(ReadOnlySpan<byte> utf8) => Utf8.IsValid(utf8) && !utf8.Contains((byte)0);

    private static string? FindFaultBeyondAscii(ReadOnlySpan<char> text)
    {
        while (!text.IsEmpty)
        {
            if (Rune.DecodeFromUtf16(text, out var rune, out var characters) != OperationStatus.Done)
                return "holds half a surrogate pair";
            if (Rune.IsControl(rune))
                return "holds a control character";
            if ((rune.Value & 0xFFFE) == 0xFFFE || rune.Value is >= 0xFDD0 and <= 0xFDEF)
                return "holds a code point that is no character";
            text = text[characters..];
        }

        return null;
    }
}
