using System.Text;
using MudServer.Telnet;

namespace MudServer.Tests.Telnet;

public sealed class TelnetLineReaderTests
{
    private const int MaxLineBytes = 20;

    [Theory]
    [InlineData("one\r\ntwo\r\n", "one|two")]
    [InlineData("one\ntwo\n", "one|two")]
    [InlineData("one\rtwo\r", "one|two")]
    [InlineData("one\r\0two\r\0", "one|two")]
    [InlineData("one\r\n\r\ntwo\n\nthree\r\n", "one||two||three")]
    [InlineData("no end", "")]
    [InlineData("wrpo\b\bong\r\n", "wrong")]
    [InlineData("\b\b\bx\r\n", "x")]
    [InlineData("a\u00e9\u007fb\r\n", "ab")]
    [InlineData("b\u001b[31mell\u0007\r\n", "b[31mell")]
    [InlineData("tab\there\r\n", "tab here")]
    [InlineData("na\u00efve \ud83c\udf19\r\n", "na\u00efve \ud83c\udf19")]
    public void Lines_are_found_whatever_ends_them_and_however_they_are_cut(string sent, string expected)
    {
        var bytes = Encoding.UTF8.GetBytes(sent);
        for (var chunk = 1; chunk <= bytes.Length; chunk++)
            Assert.Equal(expected, string.Join('|', ReadAll(bytes, chunk)));
    }

    [Fact]
    public void Negotiation_is_not_text()
    {
        byte[] bytes =
        [
            255, 253, 1, (byte)'a', 255, 251, 31, 255, 250, 31, 0, 80, 255, 255, 0, 24, 255, 240, (byte)'b', 255, 241, (byte)'c', 255, 254, (byte)'x',
            (byte)'\r', (byte)'\n',
        ];
        for (var chunk = 1; chunk <= bytes.Length; chunk++)
            Assert.Equal(["abc"], ReadAll(bytes, chunk));
    }

    [Fact]
    public void A_line_that_is_too_long_is_thrown_away_and_the_next_one_is_not()
    {
        var fits = new string('f', MaxLineBytes);
        var bytes = Encoding.ASCII.GetBytes($"{fits}\r\n{fits}x\r\n{new string('y', 1000)}\r\nnext\r\n");

        Assert.Equal([fits, "(too long)", "(too long)", "next"], ReadAll(bytes, chunk: 7));
    }

    [Fact]
    public void Garbage_never_throws_and_never_makes_a_line_longer_than_the_limit()
    {
        var random = new Random(854);
        var bytes = new byte[200_000];
        random.NextBytes(bytes);

        Assert.All(ReadAll(bytes, chunk: 97), line => Assert.InRange(line.Length, 0, MaxLineBytes));
    }

    private static List<string> ReadAll(byte[] bytes, int chunk)
    {
        var reader = new TelnetLineReader(MaxLineBytes);
        var lines = new List<string>();
        foreach (var part in bytes.Chunk(chunk))
        {
            ReadOnlySpan<byte> rest = part;
            while (reader.Read(ref rest, out var line) is var result && result != TelnetLineResult.Incomplete)
                lines.Add(result == TelnetLineResult.TooLong ? "(too long)" : line);
            Assert.True(rest.IsEmpty);
        }

        return lines;
    }
}
