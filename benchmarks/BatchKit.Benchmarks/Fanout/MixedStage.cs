using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.FanoutServers;

namespace BatchKit.Benchmarks.Fanout;

/// <summary>Messages to single clients, alone and while a broadcast to all and messages to small groups are under way.</summary>
internal sealed class MixedStage : IDisposable
{
    private const int Singles = 100;

    private readonly Part[] _parts;

    public MixedStage(int clients)
    {
        var subscribers = Math.Max(1, clients - Singles);
        _parts =
        [
            new Part("one partition, in order with the broadcast", FanoutServerKind.BatchKitTcp, subscribers),
            new Part("eight partitions", FanoutServerKind.BatchKitPartitions, subscribers),
            new Part("groups on a route of their own", FanoutServerKind.BatchKitGroupsApart, subscribers),
        ];
    }

    public IEnumerable<MixedRow> Measure(int rounds, TimeSpan duration)
    {
        foreach (var part in _parts)
            part.Run(isBusy: true, TimeSpan.FromMilliseconds(Math.Min(2000, duration.TotalMilliseconds)));
        for (var round = 0; round < rounds; round++)
        {
            foreach (var part in _parts)
            {
                part.Alone.Add(part.Run(isBusy: false, duration));
                part.Beside.Add(part.Run(isBusy: true, duration));
            }
        }

        foreach (var part in _parts)
        {
            yield return MedianOf($"{part.Name}, alone", part.Alone);
            yield return MedianOf($"{part.Name}, beside", part.Beside);
        }
    }

    public void Dispose()
    {
        foreach (var part in _parts)
            part.Dispose();
    }

    private static MixedRow MedianOf(string name, List<MixedRow> rounds) =>
        rounds.OrderBy(row => row.NinetyNine).ElementAt(rounds.Count / 2) with
        {
            Name = name,
            Messages = rounds.Sum(row => row.Messages),
            Broadcasts = rounds.Sum(row => row.Broadcasts),
            Longest = rounds.Max(row => row.Longest),
        };

    private sealed class Part : IDisposable
    {
        private readonly FanoutPair _crowd;
        private readonly ChildProcess _singles;

        public Part(string name, FanoutServerKind kind, int subscribers)
        {
            Name = name;
            _crowd = new FanoutPair(kind, subscribers);
            _singles = _crowd.StartSink(Singles);
        }

        public string Name { get; }

        public List<MixedRow> Alone { get; } = [];

        public List<MixedRow> Beside { get; } = [];

        public MixedRow Run(bool isBusy, TimeSpan duration)
        {
            _singles.Ask($"measure {Payload.Bytes}");
            var broadcasts = _crowd.Server.Ask($"mix {(isBusy ? 1 : 0)} {(int)duration.TotalMilliseconds}")[0];
            _singles.Ask("settle");
            var report = _singles.Ask("report");
            return new MixedRow(Name, report[0], broadcasts, report[1], report[2], report[3]);
        }

        public void Dispose()
        {
            _singles.Dispose();
            _crowd.Dispose();
        }
    }
}
