using System.Collections.Immutable;
using BatchKit.Testing;

namespace BatchKit.Tests.Schedules;

/// <summary>One buffer with everything around it that a schedule moves: the clock, the senders that wait, the hops, the observers, the calls under way.</summary>
internal sealed class World : IDisposable
{
    // Looking for locks takes another thread, so few seeds do.
    private const int LockedSeeds = 8;

    private static readonly TimeSpan LockTime = Deadline.Time;

    private readonly List<PendingCall> _calls = [];
    private readonly RandomActor _inSend;
    private bool _isInsideBlock;

    public World(int seed)
    {
        Schedule = new Schedule(seed);
        Journal.Add($"seed {seed}: {Schedule}");
        Clock.TimerFaults = Schedule.HasHostileClock ? TimerFaults.Random(seed) with { OutOfOrder = seed % 2 == 0 } : TimerFaults.None;
        Ledger = new Ledger(Schedule, Journal, Clock);
        Book = new ScopeBook(Schedule, Ledger, Clock);
        Losses = new LossRules(this);
        Writer = new RandomWriter(this);
        _inSend = new RandomActor(this, "a transport");
        Observers = Schedule.HasHostileObservers ? new HostileObservers(seed) : null;
        Transports = [.. Enumerable.Range(0, Schedule.HasTwoRoutes ? 2 : 1).Select(route => new ScheduledTransport(route, this))];
        OutputRoute[] routes = [.. Transports.Select((transport, route) => new OutputRoute(ScheduleRouter.Names[route], transport, Schedule.Partitions[route]))];
        Buffer = new OutputBuffer(
            routes, Schedule.HasTwoRoutes ? new ScheduleRouter(Schedule) : null, Schedule.Options, name: "explored", Clock, Observers, Observers, Scheduler);
        if (Observers is not null && seed % LockedSeeds == 0)
            Observers.IsUnderLock = () => !Task.Run(Buffer.GetStatistics).Wait(LockTime);
    }

    public Schedule Schedule { get; }

    public Journal Journal { get; } = new();

    public Ledger Ledger { get; }

    public ScopeBook Book { get; }

    public LossRules Losses { get; }

    public RandomWriter Writer { get; }

    public ManualTimeProvider Clock { get; } = new();

    public QueuedScheduler Scheduler { get; } = new();

    public HostileObservers? Observers { get; }

    public ScheduledTransport[] Transports { get; }

    public OutputBuffer Buffer { get; }

    /// <summary>The scopes that actors may close. Some are copies of closed ones.</summary>
    public List<OpenedScope> Scopes { get; } = [];

    public IReadOnlyList<PendingCall> Calls => _calls;

    public bool IsStopped { get; set; }

    /// <summary>What happens while a loop writes.</summary>
    public Action Interlude { get; set; } = () => { };

    public bool IsInsideSend { get; private set; }

    public void Dispose() => Observers?.Dispose();

    /// <summary>Takes a call's task: to be looked at later, unless it has ended already.</summary>
    public void Track(string name, ValueTask task, Action<Exception?> onEnded, CancellationTokenSource? cancellation = null)
    {
        var call = new PendingCall(name, task, onEnded, cancellation);
        if (call.TryEnd())
            return;
        if (IsInsideSend)
            Journal.Broken($"the {name} waits inside a send");
        _calls.Add(call);
    }

    /// <summary>Looks which calls have ended.</summary>
    public void EndCalls()
    {
        for (var index = 0; index < _calls.Count;)
        {
            if (_calls[index].TryEnd())
                _calls.RemoveAt(index);
            else
                index++;
        }
    }

    /// <summary>Lets time pass. Timers run in no one's context.</summary>
    public void Advance(TimeSpan time)
    {
        Journal.Add($"{time.TotalMilliseconds} ms pass");
        Book.PassTime(time);
        QueuedScheduler.RunInNoContext(() => Clock.Advance(time));
    }

    /// <summary>Lets time pass while a transport blocks its caller.</summary>
    public void Block(TimeSpan time)
    {
        if (_isInsideBlock)
            return;
        _isInsideBlock = true;
        Advance(time);
        _isInsideBlock = false;
    }

    /// <summary>Lets the transport act from inside its send, in the context that the send was called in.</summary>
    public void Reenter(ScheduledSend send)
    {
        if (IsInsideSend)
            return;
        IsInsideSend = true;
        for (var count = Schedule.Pick(3); count > 0; count--)
            _inSend.Step(send.Context!);
        IsInsideSend = false;
    }
}

/// <summary>Routes a schedule's handles: some take one route, some the other, some both, as groups do.</summary>
internal sealed class ScheduleRouter(Schedule schedule) : IOutputRouter
{
    public static ImmutableArray<string> Names { get; } = ["one", "other"];

    public ImmutableArray<string> GetRoutes(OutputHandle handle)
    {
        var routes = schedule.RoutesOf(Array.IndexOf(schedule.Handles, handle));
        return [.. Names.Where((_, route) => (routes & (1 << route)) != 0)];
    }
}
