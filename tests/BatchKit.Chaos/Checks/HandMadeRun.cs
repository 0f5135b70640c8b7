using BatchKit.Chaos.Faults;
using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Checks;

/// <summary>A history made by hand: each line is a tick later than the one before.</summary>
internal sealed class HandMadeRun
{
    public const int Ana = 0;
    public const int Ben = 1;
    public const int Group = 2;
    public const int Key = 3;
    public const int OtherKey = 4;

    private static readonly Target[] Targets = [new("ana", [2]), new("ben", [2]), new("group", [2, 3]), new("key", []), new("other key", [])];

    private readonly Dictionary<(string Name, int Version), Process> _processes = [];
    private readonly List<MadeFault> _faults = [];
    private long _now;

    public static MessageId Message(long number, int version = 1) => new("game", version, number);

    /// <summary>A message is written and accepted, and nothing tells what became of it.</summary>
    public HandMadeRun Write(long number, int target = Ana, int version = 1) =>
        Add("game", version, now => new AboutToWrite(now, number, [target])).Add("game", version, now => new Accepted(now, number, 1));

    /// <summary>The writer learns that its message is delivered, or how many are lost.</summary>
    public HandMadeRun Settle(long number, long lost = 0, int version = 1) => Add("game", version, now => new Settled(now, number, 1, lost));

    public HandMadeRun WriteAndSettle(long number, int target = Ana, int version = 1) => Write(number, target, version).Settle(number, version: version);

    public HandMadeRun Arrive(string node, long number, int version = 1, long row = 0, int writer = 1) => Add(node, version, now => new Arrived(now, Message(number, writer), row));

    /// <summary>The process is told to end.</summary>
    public HandMadeRun Stop(string node, int version = 1)
    {
        Find(node, version).EndBegan ??= _now++;
        return this;
    }

    /// <summary>The process has ended normally, and writes its counters.</summary>
    public HandMadeRun End(string node, long[] output, long[]? input = null) => Stop(node).Add(node, 1, now => new Ended(now, output, input ?? []));

    public HandMadeRun Kill(string node, int version = 1)
    {
        (Find(node, version).EndBegan, Find(node, version).WasKilled) = (_now++, true);
        return this;
    }

    /// <summary>A fault begins and ends.</summary>
    public HandMadeRun Break(FaultKind kind, string target)
    {
        _faults.Add(new MadeFault(new Fault(TimeSpan.Zero, kind, target, TimeSpan.Zero, 0), _now++, _now++));
        return this;
    }

    /// <summary>The rules that the run breaks.</summary>
    public IEnumerable<string> Check(Guarantee? guarantee = null) => Checker(guarantee).Check().Select(violation => violation.Rule);

    public HistoryChecker Checker(Guarantee? guarantee = null) => new(guarantee ?? new Guarantee("made by hand"), new RunHistory(0, [.. _processes.OrderBy(process => process.Key).Select(process => process.Value.Read(process.Key))], _faults));

    private static int NumberOf(string node) => node switch { "game" => 1, "gateway" => 2, _ => 3 };

    private HandMadeRun Add(string node, int version, Func<long, HistoryEvent> create)
    {
        Find(node, version).Events.Add(create(_now++));
        return this;
    }

    private Process Find(string node, int version)
    {
        if (!_processes.TryGetValue((node, version), out var process))
            _processes[(node, version)] = process = new Process { Events = { new Started(_now++) } };
        return process;
    }

    private sealed class Process
    {
        public List<HistoryEvent> Events { get; } = [];

        public long? EndBegan { get; set; }

        public bool WasKilled { get; set; }

        public NodeHistory Read((string Name, int Version) id) =>
            new(id.Name, NumberOf(id.Name), id.Version, Targets, Events) { EndBegan = EndBegan, WasKilled = WasKilled };
    }
}
