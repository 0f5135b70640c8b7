using System.Text;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Chooses a charset (RFC 2066): one side sends a list of names, and the other accepts one of them or rejects all.</summary>
internal static class CharsetRequests
{
    private const byte RequestCommand = 1;
    private const byte AcceptedCommand = 2;
    private const byte RejectedCommand = 3;

    // IANA's names and the aliases that clients use.
    private static readonly (string Name, TelnetCharset Charset)[] Names =
    [
        ("UTF-8", TelnetCharset.Utf8),
        ("UTF8", TelnetCharset.Utf8),
        ("ISO-8859-1", TelnetCharset.Latin1),
        ("ISO_8859-1", TelnetCharset.Latin1),
        ("ISO8859-1", TelnetCharset.Latin1),
        ("LATIN1", TelnetCharset.Latin1),
        ("LATIN-1", TelnetCharset.Latin1),
        ("L1", TelnetCharset.Latin1),
        ("US-ASCII", TelnetCharset.Ascii),
        ("ASCII", TelnetCharset.Ascii),
        ("ANSI_X3.4-1968", TelnetCharset.Ascii),
    ];

    /// <summary>The server's own request.</summary>
    public static ReadOnlyMemory<byte> Request { get; } = Frame(RequestCommand, ";UTF-8;ISO-8859-1;US-ASCII"u8);

    // A client that supports translation tables puts this before the names, followed by a version byte.
    private static ReadOnlySpan<byte> TableMark => "[TTABLE]"u8;

    public static bool IsRequest(ReadOnlySpan<byte> body) => body is [RequestCommand, ..];

    /// <summary>The name of the best charset in a client's request, as the client spells it; empty when none is supported.</summary>
    public static ReadOnlySpan<byte> Choose(ReadOnlySpan<byte> request)
    {
        var list = request[1..];
        if (list.StartsWith(TableMark))
            list = list[Math.Min(TableMark.Length + 1, list.Length)..];
        if (list.IsEmpty)
            return default;
        var names = list[1..];
        ReadOnlySpan<byte> best = default;
        var bestCharset = TelnetCharset.Ascii + 1;
        foreach (var range in names.Split(list[0]))
        {
            if (!TryParse(names[range], out var charset) || charset >= bestCharset)
                continue;
            best = names[range];
            bestCharset = charset;
        }

        return best;
    }

    /// <summary>Answers a client's request.</summary>
    /// <param name="answers">Gets the answer.</param>
    /// <param name="name">The accepted name; empty to reject all.</param>
    public static void AddAnswer(TelnetAnswers answers, ReadOnlySpan<byte> name) =>
        answers.Add(Frame(name.IsEmpty ? RejectedCommand : AcceptedCommand, name));

    /// <summary>Reads a client's answer; false when it rejected all, or accepted an unknown name.</summary>
    public static bool TryReadAccepted(ReadOnlySpan<byte> body, out TelnetCharset charset)
    {
        charset = default;
        return body is [AcceptedCommand, ..] && TryParse(body[1..], out charset);
    }

    public static bool TryParse(ReadOnlySpan<byte> name, out TelnetCharset charset)
    {
        charset = default;
        foreach (var known in Names)
        {
            if (!Ascii.EqualsIgnoreCase(name, known.Name))
                continue;
            charset = known.Charset;
            return true;
        }

        return false;
    }

    private static byte[] Frame(byte command, ReadOnlySpan<byte> names) =>
        [TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.CharsetOption, command, .. names, TelnetCode.Interpret, TelnetCode.SubnegotiationEnd];
}
