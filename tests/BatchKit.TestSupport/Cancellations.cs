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
}
