using System.Globalization;

namespace BatchKit.IntegrationTests.Hostile;

/// <summary>Names that a broker, a query or a tool may take for something else: some that are known, then random ones.</summary>
internal static class HostileNames
{
    /// <summary>How many names each test tries: 30 unless this environment variable says otherwise.</summary>
    private const string NamesVariable = "BATCHKIT_TEST_NAMES";

    private const int Seed = 16;

    private static readonly string[] Known =
    [
        "quo\"ted", "it's", "'; drop table messages; --", "back\\slash", "a/b", "/", "#", "+", "a/+/#", "*", "a.*.#", "$SYS/broker", "amq.direct", "nul\0", "new\nline\r\n", " leading", "trailing ", "half \ud800",
        "\udc00 half", "🎲 dice", "\u202eright to left", "\ufeffmark", "%2F{0}%n", new('x', 100), new('x', 101), new('漢', 34), new('y', 255), new('y', 256),
    ];

    private static readonly string[] Parts =
    [
        "\"", "'", "`", "/", "\\", "#", "+", "*", "\0", "\n", "\r", "\t", "\u0001", "\u007f", "\u0085", " ", "$", "$SYS/", "$share/", "amq.", ".", "..", "%", "%00", "{", "}", "(", ";", "--", "@", ":", "?", "&", "=",
        "\ud800", "\udfff", "🎲", "漢", "\u202e", "\u200b", "\ufeff", "\uffff", "é", "e\u0301", "a", "Z", "0", "-", "_",
    ];

    private static readonly int[] Lengths = [1, 2, 3, 5, 8, 13, 33, 34, 63, 64, 84, 85, 100, 101, 255, 256, 1000, 1001, 1024, 1025, 5000];

    public static int Count => int.TryParse(Environment.GetEnvironmentVariable(NamesVariable), CultureInfo.InvariantCulture, out var given) ? given : 30;

    /// <summary>The names, each once.</summary>
    public static string[] Create()
    {
        var random = new Random(Seed);
        var names = new HashSet<string>(Known, StringComparer.Ordinal);
        while (names.Count < Count)
            names.Add(CreateOne(random));
        return [.. names.Take(Count)];
    }

    // A few parts again and again make names of each length; most are short, so that they are taken more often than refused for their length.
    private static string CreateOne(Random random)
    {
        var length = Lengths[random.Next(random.Next(Lengths.Length) + 1)];
        var parts = random.GetItems(Parts, 4);
        var name = "";
        while (name.Length < length)
            name += parts[random.Next(parts.Length)];
        return name[..length];
    }
}
