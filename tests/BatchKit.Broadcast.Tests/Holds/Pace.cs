using System.Diagnostics;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Does something so many times a second, in all so many times; what a busy machine delayed is made up for.</summary>
internal static class Pace
{
    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(5);

    public static async Task RunAsync(int perSecond, long times, Action act, CancellationToken cancellationToken)
    {
        using var timer = new PeriodicTimer(Period);
        var began = Stopwatch.GetTimestamp();
        for (long done = 0; done < times && !cancellationToken.IsCancellationRequested;)
        {
            for (var due = Math.Min(times, (long)(Stopwatch.GetElapsedTime(began).TotalSeconds * perSecond)); done < due; done++)
                act();
            await timer.WaitForNextTickAsync(CancellationToken.None).ConfigureAwait(false);
        }
    }
}
