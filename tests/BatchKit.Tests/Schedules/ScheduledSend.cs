using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>A send under way: what it had when it began, and the task that the buffer waits for.</summary>
internal sealed class ScheduledSend(SentBatch[] batches, ReadOnlyMemory<MessageBatch> memory, LaneHistory lane, TimeProvider clock)
{
    // What the buffer gives a transport to notice its cancelled token.
    private static readonly TimeSpan Grace = TimeSpan.FromMilliseconds(500);

    // Continues on the thread that ends it, which is the explorer's only one.
    private readonly TaskCompletionSource _end = new();
    private long? _cancelledAt;

    public SentBatch[] Batches { get; } = batches;

    public LaneHistory Lane { get; } = lane;

    public Task Task => _end.Task;

    /// <summary>The context that the transport was called in, for what it does before it ends.</summary>
    public ExecutionContext? Context { get; } = ExecutionContext.Capture();

    public bool IsCancelled => _cancelledAt is not null;

    /// <summary>True when the buffer waits for it no longer: it did not heed its token in time.</summary>
    public bool IsAbandoned => _cancelledAt is { } at && clock.GetElapsedTime(at) >= Grace;

    public bool IsMemoryIntact => memory.Length == Batches.Length && memory.ToArray().Zip(Batches).All(pair => pair.Second.IsStillIn(pair.First));

    public void OnCancelled() => _cancelledAt ??= clock.GetTimestamp();

    public void End(Exception? failure)
    {
        if (failure is null)
            _end.SetResult();
        else
            _end.SetException(failure);
    }

    public override string ToString() => string.Join(' ', Batches.Select(batch => batch.ToString()));
}
