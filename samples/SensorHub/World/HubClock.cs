using System.Diagnostics;

namespace SensorHub.World;

/// <summary>The time since the process began; the same for who writes and who measures.</summary>
internal sealed class HubClock
{
    private readonly long _began = Stopwatch.GetTimestamp();

    public TimeSpan Now => Stopwatch.GetElapsedTime(_began);

    public long Microseconds => Now.Ticks / TimeSpan.TicksPerMicrosecond;
}
