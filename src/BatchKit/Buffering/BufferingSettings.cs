using BatchKit.Diagnostics;
using BatchKit.Dispatch;
using Microsoft.Extensions.Logging;

namespace BatchKit.Buffering;

/// <summary>What every handle's buffer of one output buffer shares.</summary>
internal sealed record BufferingSettings(
    OutputBufferOptions Options,
    CoarseClock Clock,
    ByteBudget Budget,
    PendingBatchPool Batches,
    LingerQueue Linger,
    SendContext SendContext,
    BatchKitMetrics Metrics,
    ILogger Logger)
{
    private long _order;

    public bool Lingers { get; } = Options.Linger > TimeSpan.Zero;

    public int MaxBatchBytes { get; } = Options.MaxBatchBytes;

    public int MaxBatchMessages { get; } = Options.MaxBatchMessages;

    /// <summary>The next place in the order of batches over all handles; needed only where the oldest may have to go.</summary>
    public long NextOrder() => Options.Overflow == OverflowPolicy.DropOldest ? Interlocked.Increment(ref _order) : 0;
}
