using BatchKit.Benchmarks.Reports;

namespace BatchKit.Benchmarks.Projects;

/// <summary>A project of BenchmarkDotNet's, whose program passes its arguments on to a <c>BenchmarkSwitcher</c>.</summary>
/// <remarks>It runs in its own folder: BenchmarkDotNet looks from there for the project that it builds again.</remarks>
internal sealed class BenchmarkProject
{
    private readonly string _file;
    private readonly string _folder;
    private readonly IReadOnlyList<string> _arguments;

    /// <param name="path">The project's file, or a folder with one.</param>
    /// <param name="arguments">What its program gets with each run.</param>
    /// <exception cref="UsageException">There is no such project.</exception>
    public BenchmarkProject(string path, IReadOnlyList<string> arguments)
    {
        _file = FindFile(path);
        _folder = Path.GetDirectoryName(_file)!;
        _arguments = arguments;
    }

    public Task BuildAsync(CancellationToken cancellationToken)
    {
        Console.Error.WriteLine($"builds {_file}");
        return DotnetAsync(["build", _file, "-c", "Release", "-v", "q"], cancellationToken);
    }

    /// <summary>The full names of its benchmarks, without parameters.</summary>
    public async Task<IReadOnlyList<string>> ListAsync(CancellationToken cancellationToken) =>
        (await RunProgramAsync(["--list", "flat"], cancellationToken)).Split('\n', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);

    /// <summary>Runs what matches the filters, and reads its reports.</summary>
    public async Task<ReportFolder> RunAsync(IReadOnlyList<string> filters, string artifacts, CancellationToken cancellationToken)
    {
        var folder = Path.GetFullPath(artifacts);
        if (Directory.Exists(folder))
            Directory.Delete(folder, recursive: true);
        Directory.CreateDirectory(folder);
        var output = await RunProgramAsync(["--filter", .. filters, "--exporters", "json", "--artifacts", folder, .. _arguments], cancellationToken);
        await File.WriteAllTextAsync(Path.Combine(folder, "output.txt"), output, cancellationToken);
        return Directory.Exists(Path.Combine(folder, "results"))
            ? ReportFolder.Read(folder)
            : throw new UsageException(
                $"{_file} wrote no report to {folder}; its output is there. Its program must pass its arguments on: BenchmarkSwitcher.FromAssembly(typeof(Program).Assembly).Run(args).");
    }

    private Task<string> RunProgramAsync(IEnumerable<string> arguments, CancellationToken cancellationToken) =>
        DotnetAsync(["run", "--project", _file, "-c", "Release", "--no-build", "--", .. arguments], cancellationToken);

    private Task<string> DotnetAsync(IEnumerable<string> arguments, CancellationToken cancellationToken) => ExternalProgram.RunAsync(_folder, "dotnet", arguments, cancellationToken);

    private static string FindFile(string path)
    {
        var full = Path.GetFullPath(path);
        if (File.Exists(full))
            return full;
        var files = Directory.Exists(full) ? Directory.GetFiles(full, "*.csproj") : [];
        return files.Length == 1 ? files[0] : throw new UsageException($"{path} is no project and no folder with one.");
    }
}
