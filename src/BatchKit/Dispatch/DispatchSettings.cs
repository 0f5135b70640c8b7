using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Dispatch;

/// <summary>What every partition of a buffer shares.</summary>
internal sealed record DispatchSettings(
    OutputBufferOptions Options,
    TimeProvider TimeProvider,
    CoarseClock Clock,
    IDispatchScheduler Scheduler,
    SendContext SendContext,
    BatchKitMetrics Metrics,
    ILogger Logger,
    int RandomSeed);
