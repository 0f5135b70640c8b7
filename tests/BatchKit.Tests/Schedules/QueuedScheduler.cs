using BatchKit.Batches;

namespace BatchKit.Tests.Schedules;

/// <summary>Holds the senders that want to run until the explorer lets one of them, in whatever order: the thread pool promises none.</summary>
internal sealed class QueuedScheduler : IDispatchScheduler
{
    private readonly List<IThreadPoolWorkItem> _waiting = [];

    public int Waiting => _waiting.Count;

    public void Schedule(IThreadPoolWorkItem sender) => _waiting.Add(sender);

    public void Run(int index)
    {
        var sender = _waiting[index];
        _waiting.RemoveAt(index);

        // A pool thread begins with no one's context, so neither does a sender here.
        using (ExecutionContext.SuppressFlow())
            ExecutionContext.Run(Empty, static state => ((IThreadPoolWorkItem)state!).Execute(), sender);
    }

    private static ExecutionContext Empty { get; } = CaptureEmpty();

    private static ExecutionContext CaptureEmpty()
    {
        ExecutionContext? empty = null;
        var thread = new Thread(() => empty = ExecutionContext.Capture());
        thread.UnsafeStart();
        thread.Join();
        return empty!;
    }
}
