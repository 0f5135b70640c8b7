using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Reports;

namespace BatchKit.Benchmarks.Projects;

/// <summary>Takes folders of BenchmarkDotNet's results as rounds, and runs nothing.</summary>
internal sealed class ResultsRunner(IReadOnlyList<string> folders) : ISuiteRunner
{
    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        var reports = folders.Select(ReportFolder.Read).ToArray();
        var readings = new SuiteReadings(writer => ProjectRunner.WriteTables(writer, reports[0]));
        foreach (var report in reports)
            report.AddTo(readings, suite);
        return readings;
    }
}
