namespace BatchKit.Benchmarks.Reports;

/// <summary>One benchmark of a report.</summary>
/// <param name="Class">The name of its class.</param>
/// <param name="Method">Its method.</param>
/// <param name="Parameters">As <c>[Name=value, …]</c>; empty when it has none.</param>
/// <param name="Time">The lower quartile of the iterations, in nanoseconds; null when the benchmark failed.</param>
/// <param name="Allocated">The bytes of an operation; null without a memory diagnoser.</param>
internal sealed record ReportRow(string Class, string Method, string Parameters, double? Time, double? Allocated)
{
    /// <summary>The name that <c>gates.json</c> uses.</summary>
    public string Name => $"{Class}.{Method}{Parameters}";

    /// <summary>Whether this is the method that a user names as <c>Method</c> or <c>Class.Method</c>.</summary>
    public bool IsOf(string method) => method == Method || method == $"{Class}.{Method}";
}
