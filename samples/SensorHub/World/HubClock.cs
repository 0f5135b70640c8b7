using System.Diagnostics;

namespace SensorHub.World;

/// <summary>The time since the process started. The writer and the meter share it.</summary>
internal sealed class HubClock
{
    private readonly long _began = Stopwatch.GetTimestamp();

    public TimeSpan Now => Stopwatch.GetElapsedTime(_began);

    public long Microseconds => Now.Ticks / TimeSpan.TicksPerMicrosecond;
}
