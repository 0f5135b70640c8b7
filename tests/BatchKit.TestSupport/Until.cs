using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace BatchKit.TestSupport;

/// <summary>Waits for what has no event of its own.</summary>
public static class Until
{
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(5);

    /// <summary>Looks again and again until it is so.</summary>
    /// <exception cref="TimeoutException">It was not, until the deadline of a test; with what was waited for.</exception>
    public static Task TrueAsync(Func<bool> isSo, [CallerArgumentExpression(nameof(isSo))] string what = "") => TrueAsync(() => Task.FromResult(isSo()), what);

    /// <inheritdoc cref="TrueAsync(Func{bool}, string)"/>
    public static Task TrueAsync(Func<Task<bool>> isSo, [CallerArgumentExpression(nameof(isSo))] string what = "") => TrueAsync(isSo, static () => Task.FromResult(0L), what);

    /// <summary>Counts again and again until so many are reached; each change of the count puts the deadline off.</summary>
    /// <exception cref="TimeoutException">The count stood still until the deadline of a test.</exception>
    public static Task ReachedAsync(Func<Task<long>> count, long wanted)
    {
        var counted = 0L;
        return TrueAsync(async () => (counted = await count()) >= wanted, () => Task.FromResult(counted), $"the count is {wanted}.");
    }

    /// <summary>Asks again and again until it is so; each change of the progress puts the deadline off.</summary>
    /// <exception cref="TimeoutException">It was not, and the progress stood still until the deadline of a test.</exception>
    public static async Task TrueAsync(Func<Task<bool>> isSo, Func<Task<long>> progress, [CallerArgumentExpression(nameof(isSo))] string what = "")
    {
        var (last, since) = (0L, Stopwatch.GetTimestamp());
        while (!await isSo().WithinDeadline())
        {
            if (await progress().WithinDeadline() is var now && now != last)
                (last, since) = (now, Stopwatch.GetTimestamp());
            if (Stopwatch.GetElapsedTime(since) > Deadline.Time)
                throw new TimeoutException($"It was not so within {Deadline.Time}, with the progress at {last}: {what}");
            await Task.Delay(Pause);
        }
    }
}
