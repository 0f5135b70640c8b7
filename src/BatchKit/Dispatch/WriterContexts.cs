using System.Diagnostics;

namespace BatchKit.Dispatch;

/// <summary>The trace contexts of a batch's writers, for the links of its send; empty and free while nobody listens.</summary>
internal sealed class WriterContexts
{
    // A span with more links than this helps nobody; backends cut at 128.
    private const int MaxLinks = 32;

    private List<ActivityContext>? _contexts;

    public IReadOnlyList<ActivityContext> All => _contexts ?? (IReadOnlyList<ActivityContext>)[];

    public void Add(ActivityContext context)
    {
        _contexts ??= [];
        if (_contexts.Count < MaxLinks && !_contexts.Contains(context))
            _contexts.Add(context);
    }

    public void Clear() => _contexts?.Clear();
}
