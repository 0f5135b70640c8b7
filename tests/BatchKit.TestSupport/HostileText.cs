using System.Globalization;
using System.Text;

namespace BatchKit.TestSupport;

/// <summary>The characters with which a client can harm the screen of another one, and how to find them there.</summary>
public static class HostileText
{
    /// <summary>The text that a forged line would begin with.</summary>
    public const string Forged = "FORGED";

    // Control characters, the ends of lines that Unicode knows, what turns the text around, and letters that show nothing.
    private static readonly int[] Codes =
    [
        .. Enumerable.Range(0, ' '), 0x7F, .. Enumerable.Range(0x80, 0x20), 0x2028, 0x2029, .. Enumerable.Range(0x202A, 5), .. Enumerable.Range(0x2066, 4),
        0x115F, 0x1160, 0x3164, 0xFFA0, 0x13441, 0x13442,
    ];

    /// <summary>Each hostile character, and the two that end a line together.</summary>
    public static IReadOnlyList<string> All { get; } = [.. Codes.Select(code => new Rune(code).ToString()), "\r\n"];

    /// <summary>Writes each character of a text as JSON may write it: as an escape sequence.</summary>
    public static string Escape(string text) => string.Concat(text.Select(unit => string.Create(CultureInfo.InvariantCulture, $"\\u{(int)unit:x4}")));

    /// <summary>Fails if a text that a client got, in lines that end with CR LF, has a hostile character or a forged line.</summary>
    public static void AssertNoneIn(string received)
    {
        foreach (var line in received.Split("\r\n"))
        {
            Assert.False(line.StartsWith(Forged, StringComparison.Ordinal), $"A forged line: {received}");
            Assert.DoesNotContain(line.EnumerateRunes(), rune => Codes.Contains(rune.Value));
        }
    }
}
