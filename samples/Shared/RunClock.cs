using System.Diagnostics;

namespace Shared;

/// <summary>The time since the process started. The writer and the meter share it.</summary>
internal sealed class RunClock
{
    private readonly long _began = Stopwatch.GetTimestamp();

    public TimeSpan Now => Stopwatch.GetElapsedTime(_began);

    public long Microseconds => Now.Ticks / TimeSpan.TicksPerMicrosecond;
}
