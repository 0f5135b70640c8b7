using System.Globalization;

namespace MudServer.Game;

/// <summary>The parts into which several games divide the players by their names, and which of them this game owns now. Thread-safe.</summary>
/// <param name="home">The shard that this game is for, from 1.</param>
/// <param name="count">How many there are.</param>
internal sealed class Shards(int home, int count)
{
    private const uint HashStart = 2_166_136_261;
    private const uint HashFactor = 16_777_619;

    private readonly bool[] _owned = new bool[count + 1];

    public int Home => home;

    public int Count => count;

    public IEnumerable<int> All => Enumerable.Range(1, count);

    public IEnumerable<int> Owned => All.Where(Owns);

    /// <summary>The shard of a name: the same in each process, and in any case of its letters.</summary>
    public static int Of(string name, int count)
    {
        var hash = HashStart;
        foreach (var letter in name)
            hash = unchecked((hash ^ char.ToUpperInvariant(letter)) * HashFactor);
        return (int)(hash % (uint)count) + 1;
    }

    /// <summary>Reads <c>1/2</c>: the first of two shards.</summary>
    /// <exception cref="FormatException">The text is something else.</exception>
    public static Shards Parse(string text)
    {
        const int most = 16;
        var parts = text.Split('/');
        return parts.Length == 2 && TryRead(parts[1], most, out var count) && TryRead(parts[0], count, out var home)
            ? new Shards(home, count)
            : throw new FormatException($"takes a shard and the number of shards, from 1/1 to {most}/{most}, such as 1/2 for the first of two");
    }

    public int Of(string name) => Of(name, count);

    public bool Owns(int shard) => count == 1 || Volatile.Read(ref _owned[shard]);

    public void SetOwned(int shard, bool isOwned) => Volatile.Write(ref _owned[shard], isOwned);

    private static bool TryRead(string text, int most, out int number) =>
        int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out number) && number >= 1 && number <= most;
}
