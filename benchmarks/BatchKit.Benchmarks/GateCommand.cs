using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks;

/// <summary><c>gate [suite…] [--out folder]</c>: holds the bars of <c>gates.json</c>.</summary>
internal static class GateCommand
{
    public static int Run(string[] arguments)
    {
        var suites = GateFile.Read();
        var (names, folder) = Parse(arguments);
        var unknown = names.Where(name => !suites.ContainsKey(name)).ToArray();
        if (unknown.Length > 0)
        {
            Console.Error.WriteLine($"There is no gate '{string.Join("', '", unknown)}'. There are: {string.Join(", ", suites.Keys)}.");
            return 2;
        }

        var isOk = true;
        foreach (var name in names.Count == 0 ? [.. suites.Keys] : names)
            isOk &= RunSuite(name, suites[name], folder);
        return isOk ? 0 : 1;
    }

    private static bool RunSuite(string name, GateSuite suite, string? folder)
    {
        Console.WriteLine($"{name}:");
        var readings = SuiteRunners.For(suite).Measure(suite, everything: folder is not null);
        var results = suite.Gates.Select(readings.Compare).ToArray();
        var width = results.Max(result => result.Gate.Name.Length);
        foreach (var result in results)
            Console.WriteLine($"  {result.Gate.Name.PadRight(width)}  {result.Figure,12}  {result.Bound,12}  {result.Verdict}");
        if (folder is not null)
            ResultFile.Write(folder, name, results, readings);
        return results.All(result => result.IsOk);
    }

    private static (List<string> Names, string? Folder) Parse(string[] arguments)
    {
        var names = new List<string>(arguments);
        var option = names.IndexOf("--out");
        if (option < 0)
            return (names, null);
        if (option + 1 == names.Count)
            throw new ArgumentException("--out needs a folder.", nameof(arguments));
        var folder = names[option + 1];
        names.RemoveRange(option, 2);
        return (names, folder);
    }
}
