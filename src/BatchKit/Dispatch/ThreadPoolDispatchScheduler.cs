namespace BatchKit.Dispatch;

/// <summary>Runs senders on the thread pool.</summary>
internal sealed class ThreadPoolDispatchScheduler : IDispatchScheduler
{
    public static ThreadPoolDispatchScheduler Shared { get; } = new();

    public void Schedule(IThreadPoolWorkItem sender) => ThreadPool.UnsafeQueueUserWorkItem(sender, preferLocal: false);
}
