namespace BatchKit.Tests.Schedules;

/// <summary>Does what game code may do to a buffer, at random, in an async flow of its own.</summary>
internal sealed class RandomActor(World world, string name)
{
    private readonly Schedule _schedule = world.Schedule;
    private ExecutionContext _context = ExecutionContext.Capture()!;

    public void Step() => Step(_context);

    /// <summary>Takes one step in a flow that begins with the given context.</summary>
    public void Step(ExecutionContext context) => ExecutionContext.Run(context, _ => StepInFlow(), state: null);

    private void StepInFlow()
    {
        switch (_schedule.Pick(100))
        {
            case < 50:
                world.Writer.Write();
                break;
            case < 65:
                OpenScope();
                break;
            case < 69:
                Journal("opens an ambient scope");
                Open(() => world.Buffer.BeginBufferingScope());
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
                Journal("flushes all");
                Flush("flush of all", message => true, () => world.Buffer.FlushAsync());
                break;
        }

        _context = ExecutionContext.Capture()!;
    }

    private void OpenScope()
    {
        var handle = _schedule.Pick(_schedule.Handles.Length);
        Journal($"opens a scope on h{handle}");
        Open(() => world.Buffer.BeginBufferingScope(_schedule.Handles[handle]));
    }

    private void Open(Func<BufferingScope> open)
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
        Journal($"closes scope {index}");
        if (_schedule.Chance(20))
            Flush($"end of scope {index}", message => false, scope.DisposeAsync);
        else
            scope.Dispose();
    }

    private void EndScope()
    {
        var handle = _schedule.Pick(_schedule.Handles.Length);
        Journal($"ends a scope on h{handle}");
        world.Buffer.EndBufferingScope(_schedule.Handles[handle]);
    }

    private void FlushHandle()
    {
        var handle = _schedule.Pick(_schedule.Handles.Length);
        Journal($"flushes h{handle}");
        Flush($"flush of h{handle}", message => message.Handle == handle, () => world.Buffer.FlushAsync(_schedule.Handles[handle]));
    }

    // Inside a send it completes when queued, so that there is nothing to check when it ends.
    private void Flush(string call, Func<LedgerMessage, bool> covers, Func<ValueTask> flush)
    {
        var isInsideSend = world.IsInsideSend;
        var covered = world.Ledger.Messages.Where(message => message.IsAccepted == true && covers(message)).ToList();
        world.Track(call, flush(), failure =>
        {
            Journal($"sees the end of the {call}: {failure?.Message ?? "all is acknowledged"}");
            if (failure is not null && _schedule.IsLossless && !_schedule.Drops)
                world.Journal.Broken($"the {call} failed: {failure.Message}");
            if (failure is null && _schedule.IsLossless && !isInsideSend && covered.Find(message => !world.Ledger.IsAcknowledged(message)) is { } missing)
                world.Journal.Broken($"the {call} completed before m{missing.Id} was acknowledged");
        });
    }

    private void Journal(string deed) => world.Journal.Add($"{name} {deed}");
}
