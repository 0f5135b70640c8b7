using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Batches;

/// <summary>What all parts of one output buffer share: its options as they were when it was created, its clock, its memory and its observers.</summary>
internal sealed class BufferSettings
{
    private readonly NodeNumber _node;
    private long _order;
    private long _losses;
    private long _handleLooks;

    public BufferSettings(OutputBufferOptions options, string name, BufferClock clock, IDispatchScheduler scheduler, BatchKitMetrics metrics, GuardedLogger logger, int routes = 1)
    {
        Name = name;
        _node = options.NumberInUse ?? new NodeNumber(options.Node ?? 0);
        MaxBatchBytes = options.MaxBatchBytes;
        MaxBatchMessages = options.MaxBatchMessages;
        MaxMessageBytes = options.MaxMessageBytes;
        Overflow = options.Overflow;
        Linger = options.Linger;
        Lingers = Linger > TimeSpan.Zero;
        DropsOldest = Overflow == OverflowPolicy.DropOldest;
        MaxSendBytes = options.MaxSendBytes;
        MaxSendBatches = options.MaxSendBatches;
        SendTimeout = options.SendTimeout;
        DeliveryTimeout = options.DeliveryTimeout;
        RetryDelay = options.RetryDelay;
        MaxRetryDelay = options.MaxRetryDelay;
        MaxScopeAge = options.MaxScopeAge;
        HandleIdleTimeout = options.HandleIdleTimeout;
        MaxIdleHandles = options.MaxIdleHandles;
        DrainTimeout = options.DrainTimeout;
        Clock = clock;
        Scheduler = scheduler;
        Metrics = metrics;
        Logger = logger;
        LogThrottle = new LogThrottle(clock.TimeProvider);
        Drops = options.MessagesDropped is { } dropped ? new DropReporter(dropped, scheduler, logger.Faults) : null;
        Batches = new PendingBatchPool(Drops);
        MaxHandleBytes = options.MaxBufferedBytesPerHandle;
        Budget = new ByteBudget(options.MaxBufferedBytes, routes, scheduler, DropsOldest, MaxMessageBytes + (long)OutputBufferOptions.MessageOverheadBytes + LatestValues.KeyBytes);
    }

    public string Name { get; }

    /// <summary>Read it as late as possible, because the first read fixes it.</summary>
    public int Node => _node.Value;

    public int MaxBatchBytes { get; }

    public int MaxBatchMessages { get; }

    public int MaxMessageBytes { get; }

    public OverflowPolicy Overflow { get; }

    public TimeSpan Linger { get; }

    public bool Lingers { get; }

    public int MaxSendBytes { get; }

    public int MaxSendBatches { get; }

    public TimeSpan SendTimeout { get; }

    public TimeSpan DeliveryTimeout { get; }

    public TimeSpan RetryDelay { get; }

    public TimeSpan MaxRetryDelay { get; }

    public TimeSpan MaxScopeAge { get; }

    public TimeSpan HandleIdleTimeout { get; }

    public int MaxIdleHandles { get; }

    public TimeSpan DrainTimeout { get; }

    /// <summary>True when the policy drops the oldest batches, which must then know their place in the buffer's order.</summary>
    public bool DropsOldest { get; }

    public BufferClock Clock { get; }

    public IDispatchScheduler Scheduler { get; }

    public SendContext SendContext { get; } = new();

    public ByteBudget Budget { get; }

    public PendingBatchPool Batches { get; }

    /// <summary>Tells the application of lost messages; null when it does not ask.</summary>
    public DropReporter? Drops { get; }

    /// <summary>The most bytes that one handle may have; null for a part of what its routes have left.</summary>
    public long? MaxHandleBytes { get; }

    public GroupChanges GroupChanges { get; } = new();

    public BatchKitMetrics Metrics { get; }

    public GuardedLogger Logger { get; }

    /// <summary>Bounds what repeated failures add to the log, for all partitions of a route together.</summary>
    public LogThrottle LogThrottle { get; }

    /// <summary>How many handles were looked at by what looks at all of them: what a sweep, a reading or a search costs.</summary>
    public long HandleLooks => Volatile.Read(ref _handleLooks);

    public void CountLook() => Interlocked.Increment(ref _handleLooks);

    /// <summary>The next place in the order of batches over all handles.</summary>
    public long NextOrder() => Interlocked.Increment(ref _order);

    /// <summary>The place that was given last.</summary>
    public long LastOrder => Volatile.Read(ref _order);

    /// <summary>The moment of the last loss, counted over all handles.</summary>
    public long LastLoss => Volatile.Read(ref _losses);

    /// <summary>The moment of a loss that happens now.</summary>
    public long NextLoss() => Interlocked.Increment(ref _losses);
}

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
