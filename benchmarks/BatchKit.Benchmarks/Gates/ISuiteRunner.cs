namespace BatchKit.Benchmarks.Gates;

/// <summary>Runs a suite's benchmarks in rounds.</summary>
internal interface ISuiteRunner
{
    /// <summary>Measures.</summary>
    /// <param name="suite">How often, and what is compared.</param>
    /// <param name="everything">Run what no gate needs too, once, for the tables.</param>
    /// <exception cref="InvalidOperationException">A benchmark is unknown or failed, or nothing can run here.</exception>
    SuiteReadings Measure(GateSuite suite, bool everything);
}
