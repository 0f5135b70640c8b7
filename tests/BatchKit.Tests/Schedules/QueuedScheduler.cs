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
        RunInNoContext(sender.Execute);
    }

    /// <summary>A thread of the pool begins with no one's context, so neither does a sender or a timer here.</summary>
    public static void RunInNoContext(Action run) => ExecutionContext.Run(Empty, static state => ((Action)state!)(), run);

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
