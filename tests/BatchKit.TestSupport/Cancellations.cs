using System.Diagnostics;
using System.Globalization;

namespace BatchKit.TestSupport;

/// <summary>How many calls a test cancels.</summary>
public static class Cancellations
{
    /// <summary>The variable that says how many.</summary>
    public const string Variable = "BATCHKIT_TEST_CANCELLATIONS";

    private static readonly TimeSpan Shortest = TimeSpan.FromMicroseconds(31);

    /// <summary>Reads the variable.</summary>
    /// <param name="usual">The number where it is not set.</param>
    public static int Count(int usual = 50) => int.Parse(Environment.GetEnvironmentVariable(Variable) ?? $"{usual}", CultureInfo.InvariantCulture);

    /// <summary>Runs an operation and cancels it at a random moment: after 31 µs, or twice, four times and so on as long.</summary>
    /// <param name="operation">The operation.</param>
    /// <param name="random">Draws the moment.</param>
    /// <param name="longest">The longest time.</param>
    /// <returns>False when it ended before.</returns>
    public static async Task<bool> RunAsync(Func<CancellationToken, Task> operation, Random random, TimeSpan longest)
    {
        ArgumentNullException.ThrowIfNull(operation);
        ArgumentNullException.ThrowIfNull(random);
        using var cancellation = new CancellationTokenSource();
        var cancelling = CancelAsync(cancellation, Shortest * (1 << random.Next((int)Math.Log2(longest / Shortest) + 1)));
        try
        {
            await operation(cancellation.Token).WithinDeadline();
            return cancellation.IsCancellationRequested;
        }
        catch (OperationCanceledException) when (cancellation.IsCancellationRequested)
        {
            return true;
        }
        finally
        {
            await cancelling;
        }
    }

    // A timer counts milliseconds, and a server on the same machine answers sooner.
    private static Task CancelAsync(CancellationTokenSource cancellation, TimeSpan time)
    {
        if (time < TimeSpan.FromMilliseconds(1))
            return Task.Run(() => SpinAndCancel(cancellation, time));
        cancellation.CancelAfter(time);
        return Task.CompletedTask;
    }

    private static void SpinAndCancel(CancellationTokenSource cancellation, TimeSpan time)
    {
        var began = Stopwatch.GetTimestamp();
        SpinWait.SpinUntil(() => Stopwatch.GetElapsedTime(began) >= time);
        cancellation.Cancel();
    }
}
