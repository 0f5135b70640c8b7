using System.Buffers;
using System.Globalization;
using System.Text;
using BatchKit.Transports;

namespace BatchKit.MQTTnet;

/// <summary>Checks topic names and the texts of headers (MQTT 5, sections 1.5.4 and 4.7), and formats them for error messages.</summary>
/// <remarks>A peer may close the connection because of a text that is refused here, and Mosquitto does. Every retry of the batch would close the next connection.</remarks>
internal static class MessageTexts
{
    private const int MaxShownCharacters = 100;
    private const int MaxTextBytes = ushort.MaxValue;

    /// <summary>What is wrong with a handle as a topic; null when it is valid for a publish.</summary>
    public static string? FindFault(OutputHandle handle, bool allowSystemTopics)
    {
        if (handle.Name is not { } topic)
            return $"The handle {handle} is a connection, not a topic.";
        if (topic.AsSpan().ContainsAny('+', '#'))
            return $"The topic {Show(topic)} holds a wildcard (+ or #), which is allowed in subscriptions only.";
        if (!allowSystemTopics && topic.StartsWith("$SYS", StringComparison.Ordinal) && (topic.Length == 4 || topic[4] == '/'))
            return $"The topic {Show(topic)} is reserved for the broker; set AllowSystemTopics to publish to it.";
        return FindFaultInText(topic) is { } fault ? $"The topic {Show(topic)} {fault}." : null;
    }

    /// <summary>What is wrong with the content type or a property of a message; null when they may be sent.</summary>
    public static string? FindFault(MessageHeader? header)
    {
        if (header is null)
            return null;
        if (header.ContentType is { } contentType && FindFaultInText(contentType) is { } contentTypeFault)
            return $"The content type {Show(contentType)} {contentTypeFault}.";
        if (header.Properties.IsDefaultOrEmpty)
            return null;
        foreach (var (name, value) in header.Properties)
        {
            if (FindFaultInText(name) is { } nameFault)
                return $"The property's name {Show(name)} {nameFault}.";
            if (FindFaultInText(value) is { } valueFault)
                return $"The value of the property {Show(name)} {valueFault}.";
        }

        return null;
    }

    // What is wrong with a text, as the end of a sentence; null when it is valid.
    private static string? FindFaultInText(string? text)
    {
        if (text is null)
            return "is missing";
        if (text.AsSpan().ContainsAnyExceptInRange(' ', '~') && FindFaultBeyondAscii(text) is { } fault)
            return fault;
        return text.Length > MaxTextBytes / 3 && Encoding.UTF8.GetByteCount(text) > MaxTextBytes ? $"has more than {MaxTextBytes} bytes in UTF-8" : null;
    }

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

    // Quotes and shortens a topic and escapes unprintable characters, so that a topic can't forge a line of a log.
    private static string Show(string? topic)
    {
        topic ??= "";
        var shown = new StringBuilder("'");
        foreach (var rune in topic.AsSpan(0, Math.Min(topic.Length, MaxShownCharacters)).EnumerateRunes())
        {
            var isPlain = (rune.Value is >= ' ' and < 0x7F and not '\'' and not '\\') || Rune.IsLetterOrDigit(rune);
            if (isPlain)
                shown.Append(rune.ToString());
            else
                shown.Append(CultureInfo.InvariantCulture, $"\\u{{{rune.Value:X}}}");
        }

        return shown.Append(topic.Length > MaxShownCharacters ? "…'" : "'").ToString();
    }
}
