using System.Text;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Telnet;

/// <summary>What telnet clients send, in segments that mean something, and broken.</summary>
internal static class TelnetInputs
{
    /// <summary>Segments; any row of them is an input.</summary>
    public static IReadOnlyList<byte[]> Segments { get; } =
    [
        .. new[]
        {
            "'look' 0D 0A", "'say hello, café €🏮' 0D 00", "0A", "0D", "'x'", "00", "1B '[A'", "09", "08", "7F", "E9", "C3", "C2 9B", "F0 9F 8F",
            "FF FF", "FF F1", "FF F2", "FF F3", "FF F4", "FF F5", "FF F6", "FF F7", "FF F8", "FF F9", "FF EF", "FF F0", "FF 00", "FF", "FF FA",
            "FF FB 1F FF FA 1F 00 50 00 18 FF F0", "FF FA 1F FF FF FF FF FF FF FF FF FF F0", "FF FB 18 FF FA 18 00 'XTERM' FF F0", "FF FA 18 00 'ANSI' FF F0", "FF FA 18 00 'MTTS 137' FF F0",
            "FF FB 27 FF FA 27 00 00 'CLIENT_NAME' 01 'x' 02 01 'y' 03 'CLIENT_VERSION' 01 '1' FF F0", "FF FA 27 02 00 'CHARSET' 01 'LATIN1' 00 'MTTS' 01 '9' FF F0", "FF FC 27", "FF FC 18", "FF FB 03", "FF FD 03", "FF FE 03",
            "FF FD 19", "FF FE 19", "FF FD C9", "FF FE C9", "FF FA C9 'Core.Hello {\"client\":\"Mudlet\"}' FF F0", "FF FA C9 'Core.Ping' FF FD 19",
            "FF FD 2A", "FF FB 2A", "FF FA 2A 01 ';UTF-8;ISO-8859-1' FF F0", "FF FA 2A 01 '[TTABLE]' 01 ' US-ASCII KOI8-R' FF F0", "FF FA 2A 02 'ISO-8859-1' FF F0", "FF FA 2A 03 FF F0",
            "FF FD 56", "FF FE 56", "FF FD 57", "FF FE 57", "FF FA 57 FF F0", "FF FD 01", "FF FE 01", "FF FB 22", "FF FA FF F0",
        }.Select(TelnetScene.Bytes),
        [.. TelnetScene.Bytes("FF FD 57 FF FA 57 FF F0"), .. TelnetScene.Compress("'look' 0D 0A FF FD 19 'x'")],
        Encoding.ASCII.GetBytes(new string('y', 70)),
        [.. Enumerable.Repeat(TelnetScene.Bytes("FF FD 01"), 40).SelectMany(request => request)],
    ];

    /// <summary>Inputs, and the places where they are cut into reads.</summary>
    public static Arbitrary<(byte[] Input, int[] Cuts)> Cut { get; } =
        Gen.Elements((IEnumerable<byte[]>)Segments).ListOf().Select(segments => segments.SelectMany(segment => segment).ToArray())
            .SelectMany(input => Gen.Choose(0, input.Length).ArrayOf(), (input, cuts) => (input, cuts))
            .ToArbitrary();

    /// <summary>Makes an input of segments with bytes flipped, set, put in and left out.</summary>
    /// <returns>How many bytes it has.</returns>
    public static int Mutate(Random random, Span<byte> destination)
    {
        var length = 0;
        for (var segments = random.Next(1, 5); segments > 0; segments--)
        {
            var segment = Segments[random.Next(Segments.Count)];
            var start = random.Next(4) == 0 ? random.Next(segment.Length) : 0;
            segment.AsSpan(start).CopyTo(destination[length..]);
            length += segment.Length - start;
        }

        for (var edits = random.Next(3); edits > 0; edits--)
        {
            ref var place = ref destination[random.Next(length)];
            place = random.Next(3) switch
            {
                0 => byte.MaxValue,
                1 => (byte)(place ^ (1 << random.Next(8))),
                _ => (byte)random.Next(256),
            };
        }

        return random.Next(4) == 0 ? random.Next(length) + 1 : length;
    }
}
