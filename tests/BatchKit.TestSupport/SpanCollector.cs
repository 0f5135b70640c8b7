using System.Collections.Concurrent;
using System.Diagnostics;

namespace BatchKit.TestSupport;

/// <summary>Records the spans of the packages, and gives a test spans of its own, because other tests are traced at the same time.</summary>
public sealed class SpanCollector : IDisposable
{
    private readonly ConcurrentQueue<Activity> _ended = new();
    private readonly ActivitySource _source = new("BatchKit.TestSupport");
    private readonly ActivityListener _listener;

    public SpanCollector()
    {
        _listener = new ActivityListener
        {
            ShouldListenTo = source => source.Name == "BatchKit" || source == _source,
            Sample = static (ref ActivityCreationOptions<ActivityContext> _) => ActivitySamplingResult.AllDataAndRecorded,
            ActivityStopped = _ended.Enqueue,
        };
        ActivitySource.AddActivityListener(_listener);
    }

    /// <summary>Runs something in a span of a trace of its own.</summary>
    /// <returns>The span.</returns>
    public async Task<ActivityContext> InSpanAsync(Func<Task> run)
    {
        Activity.Current = null;
        using var span = _source.StartActivity()!;
        await run();
        return span.Context;
    }

    /// <summary>Waits for a span of the packages with this name that is a child of one of the spans, or links to it.</summary>
    public async Task<Activity> WaitForAsync(string name, ActivityContext sender)
    {
        Activity? found = null;
        await Until.TrueAsync(() => (found = _ended.FirstOrDefault(span => span.DisplayName == name && (span.ParentSpanId == sender.SpanId || Links(span).Contains(sender.SpanId)))) is not null);
        return found!;
    }

    /// <summary>The spans that this one links to.</summary>
    public static IEnumerable<ActivitySpanId> Links(Activity span) => span.Links.Select(static link => link.Context.SpanId);

    public void Dispose()
    {
        _listener.Dispose();
        _source.Dispose();
    }
}
