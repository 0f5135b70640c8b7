namespace BatchKit.Chaos.Faults;

/// <summary>Draws the faults of a run from a seed. The same seed gives the same schedule; when exactly a fault meets a message differs from run to run.</summary>
internal static class FaultSchedule
{
    private static readonly TimeSpan ShortestPause = TimeSpan.FromSeconds(0.2);
    private static readonly TimeSpan LongestPause = TimeSpan.FromSeconds(2);

    // Behind the end of one fault its target has time to do something before the next.
    private static readonly TimeSpan Rest = TimeSpan.FromSeconds(0.5);

    // What a broker takes to start beside other work on two cores.
    private static readonly TimeSpan BrokerStart = TimeSpan.FromSeconds(6);

    /// <summary>Draws a schedule: each kind comes up as often as any other, in random order, at random targets.</summary>
    /// <param name="seed">The seed.</param>
    /// <param name="length">How long faults begin; some end later.</param>
    /// <param name="kinds">The kinds of faults that the broker knows.</param>
    /// <param name="nodes">The nodes' names.</param>
    public static IReadOnlyList<Fault> Draw(int seed, TimeSpan length, IReadOnlyList<FaultKind> kinds, IReadOnlyList<string> nodes)
    {
        var random = new Random(seed);
        var faults = new List<Fault>();
        var freeAt = new Dictionary<string, TimeSpan>(StringComparer.Ordinal);
        var deck = new Stack<FaultKind>();
        for (var now = Between(random, ShortestPause, LongestPause); now < length; now += Between(random, ShortestPause, LongestPause))
        {
            if (deck.Count == 0)
                deck = new Stack<FaultKind>(Shuffle(random, kinds));
            var kind = deck.Pop();
            var target = kind >= FaultKind.KillBroker ? Fault.Broker : nodes[random.Next(nodes.Count)];
            var fault = new Fault(Later(now, freeAt.GetValueOrDefault(target)), kind, target, LengthOf(kind, random), AmountOf(kind, random));
            if (fault.At >= length)
                continue;
            freeAt[target] = fault.At + fault.Length + Rest + (kind is FaultKind.KillBroker or FaultKind.StopBroker ? BrokerStart : TimeSpan.Zero);
            faults.Add(fault);
        }

        return [.. faults.OrderBy(fault => fault.At)];
    }

    private static FaultKind[] Shuffle(Random random, IReadOnlyList<FaultKind> kinds)
    {
        FaultKind[] shuffled = [.. kinds];
        random.Shuffle(shuffled);
        return shuffled;
    }

    private static TimeSpan LengthOf(FaultKind kind, Random random) => kind switch
    {
        FaultKind.KillNode or FaultKind.StopNode => Between(random, TimeSpan.Zero, TimeSpan.FromSeconds(2)),
        FaultKind.KillBroker or FaultKind.StopBroker => Between(random, TimeSpan.Zero, TimeSpan.FromSeconds(1)),
        // Below and above the heartbeats and time limits that the nodes have.
        FaultKind.FreezeNode or FaultKind.FreezeBroker or FaultKind.DelayConnections => Between(random, TimeSpan.FromSeconds(0.2), TimeSpan.FromSeconds(7)),
        FaultKind.FillDisk => Between(random, TimeSpan.FromSeconds(0.5), TimeSpan.FromSeconds(4)),
        _ => TimeSpan.Zero,
    };

    private static long AmountOf(FaultKind kind, Random random) => kind switch
    {
        FaultKind.CutConnection => random.Next(1, 20_000),
        FaultKind.JumpClock => random.Next(-100_000, 100_000),
        _ => 0,
    };

    private static TimeSpan Later(TimeSpan one, TimeSpan other) => one > other ? one : other;

    private static TimeSpan Between(Random random, TimeSpan shortest, TimeSpan longest) => shortest + ((longest - shortest) * random.NextDouble());
}
