using System.Globalization;

namespace BatchKit.TestSupport;

/// <summary>How many calls a test cancels.</summary>
public static class Cancellations
{
    /// <summary>The variable that says how many.</summary>
    public const string Variable = "BATCHKIT_TEST_CANCELLATIONS";

    /// <summary>Reads the variable.</summary>
    /// <param name="usual">The number where it is not set.</param>
    public static int Count(int usual = 50) => int.Parse(Environment.GetEnvironmentVariable(Variable) ?? $"{usual}", CultureInfo.InvariantCulture);

    /// <summary>Runs an operation and cancels it after a time.</summary>
    /// <param name="operation">The operation.</param>
    /// <param name="milliseconds">The time in milliseconds.</param>
    /// <returns>False when it ended before.</returns>
    public static async Task<bool> RunAsync(Func<CancellationToken, Task> operation, int milliseconds)
    {
        ArgumentNullException.ThrowIfNull(operation);
        using var cancellation = new CancellationTokenSource(milliseconds);
        try
        {
            await operation(cancellation.Token).WithinDeadline();
            return cancellation.IsCancellationRequested;
        }
        catch (OperationCanceledException) when (cancellation.IsCancellationRequested)
        {
            return true;
        }
    }
}
