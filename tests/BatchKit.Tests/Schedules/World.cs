using BatchKit.Testing;

namespace BatchKit.Tests.Schedules;

/// <summary>One buffer with everything around it that a schedule moves: the clock, the senders that wait, the hops, the calls under way.</summary>
internal sealed class World
{
    private readonly List<PendingCall> _calls = [];
    private readonly RandomActor _inSend;

    public World(int seed)
    {
        Schedule = new Schedule(seed);
        Journal.Add($"seed {seed}: {Schedule}");
        Ledger = new Ledger(Schedule.Handles, [.. Enumerable.Range(0, Schedule.Handles.Length).Select(Schedule.RoutesOf)], Journal);
        Writer = new RandomWriter(this);
        _inSend = new RandomActor(this, "a transport");
        Transports = [.. Enumerable.Range(0, Schedule.HasTwoRoutes ? 2 : 1).Select(Transport)];
        OutputRoute[] routes = [.. Transports.Select((transport, route) => new OutputRoute(ScheduleRouter.Names[route], transport, Schedule.Partitions[route]))];
        Buffer = new OutputBuffer(
            routes, Schedule.HasTwoRoutes ? new ScheduleRouter(Schedule) : null, Schedule.Options, name: "explored", Clock,
            logger: null, meterFactory: null, Scheduler);
    }

    public Schedule Schedule { get; }

    public Journal Journal { get; } = new();

    public Ledger Ledger { get; }

    public RandomWriter Writer { get; }

    public ManualTimeProvider Clock { get; } = new();

    public QueuedScheduler Scheduler { get; } = new();

    public ScheduledTransport[] Transports { get; }

    public OutputBuffer Buffer { get; }

    public List<BufferingScope> Scopes { get; } = [];

    public IReadOnlyList<PendingCall> Calls => _calls;

    public bool IsStopped { get; set; }

    public bool IsInsideSend { get; private set; }

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

    private ScheduledTransport Transport(int route) => new(route, Schedule, Ledger, Journal, Clock, Reenter);
}
