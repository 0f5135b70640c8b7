using BatchKit.Transports;

namespace BatchKit.Batches;

/// <summary>Counts how often each group's members have changed in a buffer's output: a latest value may not take a place before such a change. Thread-safe.</summary>
/// <remarks>
/// A change counts when its control message is added and again when that is queued, both times behind it. So a value that read the count before it was added, and whose group has it still, is behind
/// every change that was written by then. Groups share the counts: a change of another group costs at most one value that is not replaced.
/// </remarks>
internal sealed class GroupChanges
{
    private const int Counts = 1024;

    private readonly long[] _counts = new long[Counts];

    public long CountOf(OutputHandle handle) => handle.IsConnection ? 0 : Volatile.Read(ref CountRef(handle));

    /// <summary>Counts the joins and leaves among the messages of a batch, from one of them on. Call it under the lock of the batch's handle.</summary>
    public void Note(in BatchMemory memory, int first)
    {
        if (!memory.HasControl)
            return;
        for (var message = first; message < memory.Count; message++)
        {
            var payload = memory.Bytes.AsSpan(memory.StartOf(message)..memory.Ends[message]);
            if (memory.HeaderOf(message)?.Kind == MessageKind.Control && ControlMessage.TryRead(payload, out var control) && control.Group.Length > 0)
                Interlocked.Increment(ref CountRef(OutputHandle.Named(control.Group)));
        }
    }

    private ref long CountRef(OutputHandle group) => ref _counts[(uint)group.GetHashCode() % Counts];
}
