using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>A send under way: what it had when it began, and the task that the buffer waits for.</summary>
internal sealed class ScheduledSend(SentBatch[] batches, ReadOnlyMemory<MessageBatch> memory, PartitionHistory partition, World world)
{
    // What the buffer gives a transport to notice its cancelled token.
    private static readonly TimeSpan Grace = TimeSpan.FromMilliseconds(500);

    // Continues on the thread that ends it, which is the explorer's only one.
    private readonly TaskCompletionSource _end = new();
    private readonly long _begunAt = world.Clock.GetTimestamp();
    private long? _cancelledAt;
    private long _returnedAt;

    public SentBatch[] Batches { get; } = batches;

    public PartitionHistory Partition { get; } = partition;

    public Task Task => _end.Task;

    /// <summary>The context that the transport was called in, for what it does before it ends.</summary>
    public ExecutionContext? Context { get; } = ExecutionContext.Capture();

    /// <summary>How long ago it began.</summary>
    public TimeSpan Age => world.Clock.GetElapsedTime(_begunAt);

    /// <summary>How long ago the transport returned its task.</summary>
    public TimeSpan TimeSinceReturn => world.Clock.GetElapsedTime(_returnedAt);

    public bool IsCancelled => _cancelledAt is not null;

    /// <summary>True when the buffer waits for it no longer: it did not heed its token in time.</summary>
    public bool IsAbandoned => HasReturned && CancelledFor >= Grace;

    /// <summary>True while a timer that is late decides whether it is abandoned.</summary>
    public bool MayBeAbandoned => IsAbandoned && (CancelledFor < Grace + world.Schedule.TimerSlack || TimeSinceReturn < Grace + world.Schedule.TimerSlack);

    public bool IsMemoryIntact => memory.Length == Batches.Length && memory.ToArray().Zip(Batches).All(pair => pair.Second.IsStillIn(pair.First));

    private bool HasReturned => _returnedAt != 0;

    private TimeSpan CancelledFor => _cancelledAt is { } at ? world.Clock.GetElapsedTime(at) : TimeSpan.Zero;

    public void OnCancelled() => _cancelledAt ??= world.Clock.GetTimestamp();

    /// <summary>The transport returns its task: from now on the buffer may give it up.</summary>
    public void OnReturned() => _returnedAt = Math.Max(1, world.Clock.GetTimestamp());

    public void End(Exception? failure)
    {
        if (failure is null)
            _end.SetResult();
        else if (failure is OperationCanceledException && Batches[0].Number % 2 == 0)
            _end.SetCanceled();
        else
            _end.SetException(failure);
    }

    public override string ToString() => string.Join(' ', Batches.Select(batch => batch.ToString()));
}
