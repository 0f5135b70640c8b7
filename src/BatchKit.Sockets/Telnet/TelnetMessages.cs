using System.Text;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Messages besides text that only telnet clients understand.</summary>
public static class TelnetMessages
{
    /// <summary>The content type of a GMCP message.</summary>
    public const string GmcpContentType = "application/vnd.gmcp";

    /// <summary>The content type of an MSDP message.</summary>
    public const string MsdpContentType = "application/vnd.msdp";

    private const string HideInputContentType = "application/vnd.telnet.hide-input";
    private const string ShowInputContentType = "application/vnd.telnet.show-input";

    private const byte Variable = 1;
    private const byte Value = 2;
    private const byte TableOpen = 3;
    private const byte TableClose = 4;
    private const byte ArrayOpen = 5;
    private const byte ArrayClose = 6;

    /// <summary>
    /// Marks the payload as a GMCP message: its package name, a space, and its JSON, as in <c>Char.Vitals {"hp":7}</c>. Only telnet clients that agreed to GMCP
    /// get it.
    /// </summary>
    public static MessageHeader Gmcp { get; } = new() { ContentType = GmcpContentType };

    /// <summary>Marks the payload as an MSDP message, as <see cref="WriteMsdp"/> writes it. Only telnet clients that agreed to MSDP get it.</summary>
    public static MessageHeader Msdp { get; } = new() { ContentType = MsdpContentType };

    /// <summary>Asks one telnet client not to show what its user types, such as a password, from this message on (IAC WILL ECHO, RFC 857). Write it with an empty payload to the client's own handle, before the question: then an answer that comes at once does not show either.</summary>
    /// <remarks>
    /// <para>It keeps its place in the output, and is never dropped. The client shows no line's end either: begin the answer with <c>\r\n</c>. <see cref="TelnetTerminal.HidesInput"/> tells whether the client agreed.</para>
    /// <para>A client that has sent no telnet command, such as <c>nc</c>, gets nothing, and shows what is typed; one that sends its first command later is asked then. Other protocols' clients get nothing. Nor do
    /// the members of a group: a question is for one.</para>
    /// </remarks>
    public static MessageHeader HideInput { get; } = new() { ContentType = HideInputContentType };

    /// <summary>Lets a telnet client show again what its user types (IAC WONT ECHO, RFC 857). Write it like <see cref="HideInput"/>, before the answer; nothing is sent when nothing is hidden.</summary>
    public static MessageHeader ShowInput { get; } = new() { ContentType = ShowInputContentType };

    /// <summary>Writes an MSDP variable: a single value as it is, several values or none as an array.</summary>
    /// <param name="name">The variable's name, such as <c>HEALTH</c>.</param>
    /// <param name="values">Its values.</param>
    /// <returns>A payload to write with the header <see cref="Msdp"/>.</returns>
    /// <exception cref="ArgumentException">The name or a value has a control character that MSDP uses for itself.</exception>
    public static byte[] WriteMsdp(string name, params ReadOnlySpan<string> values)
    {
        ArgumentNullException.ThrowIfNull(name);
        var bytes = new List<byte> { Variable };
        Append(bytes, name);
        bytes.Add(Value);
        if (values.Length != 1)
            bytes.Add(ArrayOpen);
        foreach (var value in values)
        {
            if (values.Length != 1)
                bytes.Add(Value);
            Append(bytes, value);
        }

        if (values.Length != 1)
            bytes.Add(ArrayClose);
        return [.. bytes];
    }

    /// <summary>Reads a client's MSDP message: each variable with each of its values. An array's values are values of its variable; tables are skipped.</summary>
    /// <remarks>Names and values pass the filter <see cref="PlayerText"/>, also where the listener's <see cref="BroadcastListenerOptions.FiltersText"/> is false.</remarks>
    /// <param name="payload">The payload of a record of kind <see cref="RecordKind.Msdp"/>.</param>
    public static IReadOnlyList<KeyValuePair<string, string>> ReadMsdp(ReadOnlySpan<byte> payload)
    {
        var (read, name, tables) = (new List<KeyValuePair<string, string>>(), string.Empty, 0);
        while (!payload.IsEmpty)
        {
            var mark = payload[0];
            payload = payload[1..];
            var length = payload.IndexOfAnyInRange(Variable, ArrayClose);
            var text = length < 0 ? payload : payload[..length];
            tables += mark switch { TableOpen => 1, TableClose => -1, _ => 0 };
            if (tables <= 0 && mark == Variable)
                name = ToText(text);
            else if (tables <= 0 && mark == Value && (!text.IsEmpty || length < 0 || payload[length] == Variable))
                read.Add(KeyValuePair.Create(name, ToText(text)));
            payload = payload[text.Length..];
        }

        return read;
    }

    /// <summary>Passes the names and values of a message through the filter <see cref="PlayerText"/>.</summary>
    /// <returns>The length of the filtered message in bytes.</returns>
    internal static int FilterMsdp(ReadOnlySpan<byte> payload, Span<byte> destination)
    {
        var written = 0;
        while (!payload.IsEmpty)
        {
            var length = payload.IndexOfAnyInRange(Variable, ArrayClose);
            var text = length < 0 ? payload : payload[..length];
            written += PlayerText.Filter(text, destination[written..]);
            if (length >= 0)
                destination[written++] = payload[length];
            payload = payload[Math.Min(text.Length + 1, payload.Length)..];
        }

        return written;
    }

    /// <summary>The telnet option that carries a message; null for text.</summary>
    internal static byte? OptionOf(MessageHeader? header) => header?.ContentType switch
    {
        GmcpContentType => TelnetCode.GmcpOption,
        MsdpContentType => TelnetCode.MsdpOption,
        HideInputContentType or ShowInputContentType => TelnetCode.EchoOption,
        _ => null,
    };

    /// <summary>True to hide what the user types, false to show it; null for other messages.</summary>
    internal static bool? HidesInput(MessageHeader? header) => header?.ContentType switch
    {
        HideInputContentType => true,
        ShowInputContentType => false,
        _ => null,
    };

    private static void Append(List<byte> bytes, string text)
    {
        if (text.AsSpan().ContainsAnyInRange('\0', (char)ArrayClose))
            throw new ArgumentException("A name or value of MSDP has a character from 0 to 6, which MSDP uses itself. Remove it.", nameof(text));
        bytes.AddRange(Encoding.UTF8.GetBytes(text));
    }

    private static string ToText(ReadOnlySpan<byte> bytes) => PlayerText.Decode(bytes, keepsLineFeeds: false);
}
