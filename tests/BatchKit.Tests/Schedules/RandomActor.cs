namespace BatchKit.Tests.Schedules;

/// <summary>Does what game code may do to a buffer, at random, in an async flow of its own.</summary>
internal sealed class RandomActor(World world, string name)
{
    private static readonly TimeSpan[] Limits = [Schedule.Tick / 2, 3 * Schedule.Tick, 12 * Schedule.Tick];

    private readonly Schedule _schedule = world.Schedule;
    private ExecutionContext _context = ExecutionContext.Capture()!;

    /// <summary>The longest limit that a scope gets.</summary>
    public static TimeSpan LongestLimit => Limits[^1];

    public void Step() => Step(_context);

    /// <summary>Takes one step in a flow that begins with the given context.</summary>
    public void Step(ExecutionContext context) => ExecutionContext.Run(context, _ => StepInFlow(), state: null);

    private void StepInFlow()
    {
        switch (_schedule.Pick(100))
        {
            case < 45:
                world.Writer.Write();
                break;
            case < 50:
                WriteLoop();
                break;
            case < 63:
                OpenScope();
                break;
            case < 69:
                OpenAmbientScope();
                break;
            case < 84:
                CloseScope();
                break;
            case < 88:
                EndScope();
                break;
            case < 97:
                FlushHandle();
                break;
            default:
                FlushAll();
                break;
        }

        _context = ExecutionContext.Capture()!;
    }

    private void WriteLoop()
    {
        var handle = _schedule.NextHandle();
        Journal($"begins a loop for h{handle}");
        world.Losses.Use(handle);
        try
        {
            world.Writer.WriteLoop(handle);
        }
        catch (ObjectDisposedException) when (world.IsStopped)
        {
            Journal("is told that the buffer has stopped");
        }
    }

    private TimeSpan? NextLimit() => _schedule.HasLimitedScopes && _schedule.Chance(50) ? _schedule.PickOne(Limits) : null;

    private void OpenScope()
    {
        var handle = _schedule.Pick(_schedule.Handles.Length);
        var limit = NextLimit();
        Journal($"opens a scope on h{handle}{(limit is null ? "" : $" for {limit.Value.TotalMilliseconds} ms")}");
        world.Losses.Use(handle);
        Open(() => world.Book.Open(handle, limit, () => limit is { } maxHold
            ? world.Buffer.BeginBufferingScope(_schedule.Handles[handle], maxHold)
            : world.Buffer.BeginBufferingScope(_schedule.Handles[handle])));
    }

    private void OpenAmbientScope()
    {
        var limit = NextLimit();
        Journal($"opens an ambient scope{(limit is null ? "" : $" for {limit.Value.TotalMilliseconds} ms")}");
        Open(() => world.Book.OpenAmbient(limit, () => limit is { } maxHold ? world.Buffer.BeginBufferingScope(maxHold) : world.Buffer.BeginBufferingScope()));
    }

    private void Open(Func<OpenedScope> open)
    {
        try
        {
            world.Scopes.Add(open());
        }
        catch (ObjectDisposedException) when (world.IsStopped)
        {
            Journal("is told that the buffer has stopped");
        }
    }

    // Often the newest, as nesting does, and sometimes any: a copy, a closed one, another actor's.
    private void CloseScope()
    {
        if (world.Scopes.Count == 0)
            return;
        var index = _schedule.Chance(60) ? world.Scopes.Count - 1 : _schedule.Pick(world.Scopes.Count);
        var scope = world.Scopes[index];
        if (_schedule.Chance(80))
            world.Scopes.RemoveAt(index);
        Journal($"closes scope {index} on {scope}");
        if (scope.Handle is { } handle)
            world.Losses.Use(handle);
        var end = world.Book.Close(scope);
        if (_schedule.Chance(40))
            Wait($"end of scope {index}", _ => false, world.Losses.BeginEnd(scope, end), scope.Scope.DisposeAsync);
        else
            scope.Scope.Dispose();
        world.Book.QueueUnheld();
    }

    private void EndScope()
    {
        var handle = _schedule.Pick(_schedule.Handles.Length);
        Journal($"ends a scope on h{handle}");
        world.Book.Disturb(handle);
        world.Book.CloseYoungest(handle, () => world.Buffer.EndBufferingScope(_schedule.Handles[handle]));
    }

    private void FlushHandle()
    {
        var handle = _schedule.Pick(_schedule.Handles.Length);
        Journal($"flushes h{handle}");
        world.Book.Disturb(handle);
        var begun = world.Ledger.Now;
        Wait($"flush of h{handle}", message => message.Handle == handle, world.Losses.BeginFlush(handle), () => world.Buffer.FlushAsync(_schedule.Handles[handle]));
        world.Ledger.Queue(other => other == handle, begun);
    }

    private void FlushAll()
    {
        Journal("flushes all");
        world.Book.Disturb(handle: null);
        var begun = world.Ledger.Now;
        var losses = world.Losses.BeginFlushOfAll();
        Wait("flush of all", _ => true, losses, () =>
        {
            // What a transport writes while the first handles are flushed may go with the last.
            var wait = world.Buffer.FlushAsync();
            LossRules.Extend(losses, world.Ledger.Messages);
            return wait;
        });
        world.Ledger.Queue(_ => true, begun);
    }

    // Inside a send it completes when queued, so that there is nothing to check when it ends.
    private void Wait(string call, Func<LedgerMessage, bool> covers, LossWait losses, Func<ValueTask> wait)
    {
        var isInsideSend = world.IsInsideSend;
        var covered = world.Ledger.Messages.Where(message => message.IsAccepted == true && covers(message)).ToList();
        world.Track(call, wait(), failure =>
        {
            Journal($"sees the end of the {call}: {failure?.Message ?? "all is acknowledged"}");
            world.Losses.End(losses, failure);
            if (failure is not null && _schedule.IsLossless && !_schedule.Drops)
                world.Journal.Broken($"the {call} failed: {failure.Message}");
            if (failure is null && _schedule.IsLossless && !isInsideSend && covered.Find(message => !world.Ledger.IsAcknowledged(message.Newest)) is { } missing)
                world.Journal.Broken($"the {call} completed before m{missing.Id} was acknowledged");
        });
    }

    private void Journal(string deed) => world.Journal.Add($"{name} {deed}");
}
