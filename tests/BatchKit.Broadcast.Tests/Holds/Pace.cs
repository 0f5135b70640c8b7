using System.Diagnostics;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Does something so many times a second, in all so many times; what a busy machine delayed is made up for. A machine that can't keep up
/// waits while the buffer is half full.</summary>
internal static class Pace
{
    private static readonly long Capacity = new OutputBufferOptions().MaxBufferedBytes;
    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(5);

    public static async Task RunAsync(OutputBuffer output, int perSecond, long times, Action act, CancellationToken cancellationToken)
    {
        using var timer = new PeriodicTimer(Period);
        var began = Stopwatch.GetTimestamp();
        for (long done = 0; done < times && !cancellationToken.IsCancellationRequested;)
        {
            for (var due = Math.Min(times, (long)(Stopwatch.GetElapsedTime(began).TotalSeconds * perSecond)); done < due;)
            {
                act();
                if (++done % perSecond != 0)
                    continue;
                while (output.GetStatistics().BufferedBytes > Capacity / 2)
                    await timer.WaitForNextTickAsync(CancellationToken.None).ConfigureAwait(false);
            }

            await timer.WaitForNextTickAsync(CancellationToken.None).ConfigureAwait(false);
        }
    }
}
