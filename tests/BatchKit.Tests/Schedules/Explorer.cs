using System.Diagnostics;

namespace BatchKit.Tests.Schedules;

/// <summary>Takes one seed's schedule: at each step an actor, a waiting sender, a stalled send or the clock moves, all on this one thread, and
/// after each the buffer's counters must agree with the ledger.</summary>
internal sealed class Explorer
{
    private const int QuickRounds = 500;

    private readonly World _world;
    private readonly Schedule _schedule;
    private readonly RandomActor[] _actors;

    private Explorer(World world)
    {
        _world = world;
        _schedule = world.Schedule;
        _actors = [.. Enumerable.Range(0, _schedule.Actors).Select(number => new RandomActor(world, $"actor {number}"))];
        world.Interlude = () => QueuedScheduler.RunInNoContext(StepAndCheck);
    }

    /// <summary>Explores a seed on a thread that has no synchronization context, where continuations run inline.</summary>
    /// <returns>Null when every rule held; else what was broken, and the last steps before it.</returns>
    public static string? Explore(int seed, int journalLines)
    {
        string? report = null;
        var thread = new Thread(() => report = ExploreHere(seed, journalLines));
        thread.UnsafeStart();
        thread.Join();
        return report;
    }

    private static string? ExploreHere(int seed, int journalLines)
    {
        using var world = new World(seed);
        try
        {
            new Explorer(world).Run();
        }
        catch (Exception failure)
        {
            world.Journal.Broken(failure.ToString());
        }

        return world.Journal.BrokenRule is { } rule
            ? $"Seed {seed} broke a rule: {rule}{Environment.NewLine}{world.Journal.Last(journalLines)}"
            : null;
    }

    private bool IsBroken => _world.Journal.BrokenRule is not null;

    private void Run()
    {
        for (var step = 0; step < _schedule.Steps && !IsBroken; step++)
            StepAndCheck();

        if (IsBroken)
            return;
        if (_schedule.Ending == Ending.Settle)
            Settle();
        if (!IsBroken)
            Stop();
    }

    private void StepAndCheck()
    {
        Step();
        Check();
    }

    private void Step()
    {
        switch (_schedule.Pick(100))
        {
            case < 50:
                _schedule.PickOne(_actors).Step();
                break;
            case < 70 when _world.Scheduler.Waiting > 0:
                _world.Scheduler.Run(_schedule.Pick(_world.Scheduler.Waiting));
                break;
            case < 88:
                EndSomeSend(_schedule.NextEnding());
                break;
            case < 92:
                CancelSomeWrite();
                break;
            case < 94 when _schedule.HasHostileClock:
                ChangeWallClock();
                break;
            case < 100:
                PassSomeTime();
                break;
        }

        _world.EndCalls();
    }

    private void Check()
    {
        CounterRules.Check(_world);
        foreach (var transport in _world.Transports)
            transport.CheckLimits();
        if (_world.Buffer.GetStatistics().OpenScopes == 0)
            _world.Book.ForgetHandleScopes();
    }

    private bool EndSomeSend(SendEnding ending)
    {
        var transport = _schedule.PickOne(_world.Transports);
        return transport.Stalled.Count > 0 && transport.End(_schedule.PickOne(transport.Stalled), ending);
    }

    // Of the writes that wait for capacity: a flush that waits ends on the pool, so whether it is still there is no choice of the seed's.
    private void CancelSomeWrite()
    {
        var writes = _world.Calls.Where(call => call.Cancellation is not null).ToList();
        if (writes.Count == 0)
            return;
        var call = _schedule.PickOne(writes);
        _world.Journal.Add($"cancels the {call.Name}");
        call.Cancellation!.Cancel();
    }

    // A few milliseconds less or more show what a timer does that is not due yet.
    private void PassSomeTime()
    {
        var time = _schedule.PickOne([1, 1, 1, 2, 5, 12]) * Schedule.Tick;
        _world.Advance(_schedule.HasHostileClock ? time + TimeSpan.FromMilliseconds(_schedule.Pick(7) - 3) : time);
    }

    private void Advance(int ticks) => _world.Advance(ticks * Schedule.Tick);

    // Nothing in a buffer is timed by the wall clock.
    private void ChangeWallClock()
    {
        _world.Journal.Add("the wall clock jumps or stands still");
        switch (_schedule.Pick(4))
        {
            case 0:
                _world.Clock.JumpWallClock(TimeSpan.FromHours(1));
                break;
            case 1:
                _world.Clock.JumpWallClock(TimeSpan.FromHours(-1));
                break;
            case 2:
                _world.Clock.StopWallClock();
                break;
            default:
                _world.Clock.StartWallClock();
                break;
        }
    }

    /// <summary>The world becomes well and every scope closes: all must leave, all calls must end, all memory must come back.</summary>
    private void Settle()
    {
        BecomeWell();
        CloseScopes(scope => !scope.HasLimit);
        CheckLimitedScopes();
        CloseScopes(_ => true);
        CloseForgottenScopes();
        RunUntil(() => _world.Calls.Count == 0 && _world.Buffer.GetStatistics().PendingMessages == 0, "everything settles");
        CheckEnd();
        RunUntil(() => _world.Buffer.GetStatistics() is { LiveHandles: 0, BufferedBytes: 0, OpenScopes: 0 }, "handles and capacity are given back");
    }

    private void CloseScopes(Func<OpenedScope, bool> which)
    {
        foreach (var scope in _world.Book.All.Where(which))
        {
            _world.Book.Close(scope);
            scope.Scope.Dispose();
        }

        _world.Book.QueueUnheld();
    }

    /// <summary>Only scopes with limits are left: all that they hold leaves within the longest limit, and they stay open.</summary>
    private void CheckLimitedScopes()
    {
        // Retries and waiting writers come to their end first.
        PassTicks(4 + (int)(RandomActor.LongestLimit / Schedule.Tick) + 2);
        var statistics = _world.Buffer.GetStatistics();
        if (statistics.PendingMessages > 0)
            _world.Journal.Broken($"scopes with limits hold output back for longer than that: {statistics}");

        // Then the ambient ones let go of the handles that are not used.
        PassTicks((int)(2 * _schedule.Options.HandleIdleTimeout / Schedule.Tick));
        var openScopes = _world.Buffer.GetStatistics().OpenScopes;
        PassTicks((int)(RandomActor.LongestLimit / Schedule.Tick) + 2);
        statistics = _world.Buffer.GetStatistics();
        if (statistics.OpenScopes != openScopes)
            _world.Journal.Broken($"{openScopes} scopes with limits were open, and are not all: {statistics}");
    }

    private void PassTicks(int ticks)
    {
        for (; ticks > 0 && !IsBroken; ticks--)
        {
            RunWhatWaits();
            Advance(1);
        }

        RunWhatWaits();
    }

    private void BecomeWell()
    {
        _world.Journal.Add("the world becomes well");
        foreach (var transport in _world.Transports)
            transport.IsWell = true;
    }

    // Those that an actor closed a copy of are among them, and those that it left open without keeping them.
    private void CloseForgottenScopes()
    {
        foreach (var handle in _schedule.Handles)
        {
            while (_world.Buffer.EndBufferingScope(handle))
            {
            }
        }
    }

    private void Stop()
    {
        if (_schedule.Ending == Ending.StopWhileWell)
            BecomeWell();
        foreach (var transport in _world.Transports)
            transport.IsDead = _schedule.Ending == Ending.StopWhileDead;
        _world.Journal.Add("the buffer stops");
        _world.IsStopped = true;
        _world.Book.Disturb(handle: null);
        var stoppedAt = _world.Clock.GetTimestamp();
        var stop = _world.Buffer.StopAsync(CancellationToken.None);
        RunUntil(() => !HasPending() || _world.Clock.GetElapsedTime(stoppedAt) >= _schedule.Options.DrainTimeout + _schedule.TimerSlack, "the stop ends");
        if (!IsBroken && HasPending())
            PassDrainLimit();
        RunUntil(() => stop.IsCompleted && _world.Calls.Count == 0, "the stop ends");
        CheckEnd();
        var disposal = _world.Buffer.DisposeAsync().AsTask();
        RunUntil(() => disposal.IsCompleted, "the disposal ends");
        if (IsBroken)
            return;
        stop.GetAwaiter().GetResult();
        disposal.GetAwaiter().GetResult();
    }

    // The drain goes on from its limit on the pool, so this thread only looks on until it has got there.
    private void PassDrainLimit()
    {
        if (!SpinWait.SpinUntil(() => !HasPending() || _world.Transports.All(transport => transport.Stalled.All(send => send.IsCancelled)), Deadline.Time))
            _world.Journal.Broken("the drain limit passed and sends were not cancelled");
        Advance(6);
        if (!SpinWait.SpinUntil(() => !HasPending(), Deadline.Time))
            _world.Journal.Broken($"the drain limit passed and messages are pending: {_world.Buffer.GetStatistics()}");
    }

    private bool HasPending() => _world.Buffer.GetStatistics().PendingMessages > 0;

    private void CheckEnd()
    {
        if (IsBroken)
            return;
        CounterRules.Check(_world);
        var missing = _world.Ledger.Messages.FirstOrDefault(message => message.IsAccepted == true && !_world.Ledger.IsAcknowledged(message.Newest));
        if (_schedule.IsLossless && missing is not null)
            _world.Journal.Broken($"m{missing.Id} was accepted and never acknowledged");
    }

    // Only a stop's end and the callers of a flush continue on the pool, which touch nothing here: they are given time.
    private void RunUntil(Func<bool> isDone, string goal)
    {
        var startedAt = Stopwatch.GetTimestamp();
        for (var round = 0; !IsBroken; round++)
        {
            RunWhatWaits();
            if (isDone())
                return;
            if (round < QuickRounds)
                Thread.Yield();
            else
                SpinWait.SpinUntil(isDone, millisecondsTimeout: 5);
            if (Stopwatch.GetElapsedTime(startedAt) > Deadline.Time)
                _world.Journal.Broken($"it never comes about that {goal}: {_world.Buffer.GetStatistics()}, calls: {string.Join(", ", _world.Calls.Select(call => call.Name))}");
            Advance(1);
        }
    }

    private void RunWhatWaits()
    {
        do
        {
            while (_world.Scheduler.Waiting > 0 && !IsBroken)
                _world.Scheduler.Run(0);
        }
        while (_schedule.Ending != Ending.StopWhileDead && EndAnySend());
        _world.EndCalls();
    }

    private bool EndAnySend() =>
        _world.Transports.Any(transport => transport.Stalled.ToList().Exists(send => transport.End(send, SendEnding.Succeeds)));
}
