using System.Diagnostics;

namespace WorldTicks.Measuring;

/// <summary>The time since the process started.</summary>
internal sealed class TicksClock
{
    private readonly long _began = Stopwatch.GetTimestamp();

    public TimeSpan Now => Stopwatch.GetElapsedTime(_began);
}
