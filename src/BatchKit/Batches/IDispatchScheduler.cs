namespace BatchKit.Batches;

/// <summary>Where a partition's sender runs when it may not run on its writer's thread: the thread pool, or a test's own schedule.</summary>
internal interface IDispatchScheduler
{
    void Schedule(IThreadPoolWorkItem sender);
}

/// <summary>Runs senders on the thread pool.</summary>
internal sealed class ThreadPoolDispatchScheduler : IDispatchScheduler
{
    public static ThreadPoolDispatchScheduler Shared { get; } = new();

    public void Schedule(IThreadPoolWorkItem sender) => ThreadPool.UnsafeQueueUserWorkItem(sender, preferLocal: false);
}
