namespace BatchKit.Dispatch;

/// <summary>Where a partition's sender runs when it may not run on its writer's thread: the thread pool, or a test's own schedule.</summary>
internal interface IDispatchScheduler
{
    void Schedule(IThreadPoolWorkItem sender);
}
