using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace BatchKit.TestSupport;

/// <summary>Waits for conditions that no event announces.</summary>
/// <remarks>The pause between two checks is a tenth of the time waited so far, from 5 to 50 ms: a check may ask a server, and many tests wait at the same time.</remarks>
public static class Until
{
    private static readonly TimeSpan ShortestPause = TimeSpan.FromMilliseconds(5);
    private static readonly TimeSpan LongestPause = TimeSpan.FromMilliseconds(50);

    /// <summary>Checks again and again until the condition holds.</summary>
    /// <exception cref="TimeoutException">It did not hold within the deadline of a test; the message names it.</exception>
    public static Task TrueAsync(Func<bool> isSo, [CallerArgumentExpression(nameof(isSo))] string what = "") => TrueAsync(() => Task.FromResult(isSo()), what);

    /// <inheritdoc cref="TrueAsync(Func{bool}, string)"/>
    public static Task TrueAsync(Func<Task<bool>> isSo, [CallerArgumentExpression(nameof(isSo))] string what = "") => TrueAsync(isSo, static () => Task.FromResult(0L), what);

    /// <summary>Counts again and again until the count is reached; each change of the count extends the deadline.</summary>
    /// <exception cref="TimeoutException">The count did not change for the deadline of a test.</exception>
    public static Task ReachedAsync(Func<Task<long>> count, long wanted)
    {
        var counted = 0L;
        return TrueAsync(async () => (counted = await count()) >= wanted, () => Task.FromResult(counted), $"the count is {wanted}.");
    }

    /// <summary>Checks again and again until the condition holds; each change of the progress extends the deadline.</summary>
    /// <exception cref="TimeoutException">It did not hold, and the progress did not change for the deadline of a test.</exception>
    public static async Task TrueAsync(Func<Task<bool>> isSo, Func<Task<long>> progress, [CallerArgumentExpression(nameof(isSo))] string what = "")
    {
        var began = Stopwatch.GetTimestamp();
        var (last, since) = (0L, began);
        while (!await isSo().WithinDeadline())
        {
            if (await progress().WithinDeadline() is var now && now != last)
                (last, since) = (now, Stopwatch.GetTimestamp());
            if (Stopwatch.GetElapsedTime(since) > Deadline.Time)
                throw new TimeoutException($"It was not so within {Deadline.Time}, with the progress at {last}: {what}");
            await Task.Delay(TimeSpan.FromTicks(Math.Clamp(Stopwatch.GetElapsedTime(began).Ticks / 10, ShortestPause.Ticks, LongestPause.Ticks)));
        }
    }
}
