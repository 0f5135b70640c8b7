using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace BatchKit.Batches;

/// <summary>The trace contexts of a batch's writers, for the links of its send; empty while no one listens. Guarded by the handle's lock until the batch is sealed.</summary>
internal struct BatchWriters
{
    private const int MaxWriters = 32;

    private List<ActivityContext>? _writers;

    public readonly IReadOnlyList<ActivityContext> All => _writers ?? (IReadOnlyList<ActivityContext>)[];

    // A method of its own, because its large values would widen the stack frame of every write.
    [MethodImpl(MethodImplOptions.NoInlining)]
    public void RememberCurrent()
    {
        if (Activity.Current is { } writer)
            Remember(writer.Context);
    }

    private void Remember(ActivityContext writer)
    {
        _writers ??= [];
        if (_writers.Count < MaxWriters && !_writers.Contains(writer))
            _writers.Add(writer);
    }

    public readonly void Clear() => _writers?.Clear();
}
