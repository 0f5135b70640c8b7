using BatchKit.Benchmarks.Figures;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks;

/// <summary><c>figures [--check]</c>: writes the figures of benchmarks/results into the pages that show them. Run it in the repository's root.</summary>
internal static class FiguresCommand
{
    private static readonly string[] Pages = [Path.Combine("docs", "performance.md"), Path.Combine("benchmarks", "figures.md"), "README.md"];

    /// <returns>1 when <paramref name="isCheck"/> is set and a page has other figures than the results.</returns>
    public static int Run(bool isCheck)
    {
        var figures = new FigurePage(GateFile.Read(), static suite => File.ReadAllText(Path.Combine("benchmarks", "results", $"{suite}.md")));
        var isOld = false;
        foreach (var page in Pages)
        {
            var text = File.ReadAllText(page);
            var updated = figures.Update(text);
            if (updated == text)
                continue;
            isOld = true;
            Console.WriteLine($"{page}: {(isCheck ? "has other figures than benchmarks/results" : "written")}");
            if (!isCheck)
                File.WriteAllText(page, updated);
        }

        return isCheck && isOld ? 1 : 0;
    }
}
