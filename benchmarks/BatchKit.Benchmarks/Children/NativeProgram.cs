using System.Diagnostics;

namespace BatchKit.Benchmarks.Children;

/// <summary>A program in C, built when it is first needed.</summary>
internal static class NativeProgram
{
    /// <summary>Why there is none here; null when there is a compiler.</summary>
    public static string? WhyMissing { get; } = FindCompiler("cc") is null ? "there is no C compiler 'cc' on the path" : null;

    /// <summary>Builds it.</summary>
    /// <param name="name">Its source's name in <c>benchmarks/native</c>.</param>
    /// <returns>The program's path.</returns>
    public static string Build(string name) => Build(name, Path.Combine(AppContext.BaseDirectory, "native", name));

    /// <summary>Builds a library to be preloaded into other programs.</summary>
    /// <param name="name">Its source's name in <c>benchmarks/native</c>.</param>
    /// <param name="path">Where to put it: those programs' user must be able to read it there.</param>
    public static string BuildLibrary(string name, string path) => Build(name, path, "-shared", "-fPIC");

    private static string Build(string name, string path, params string[] options)
    {
        var source = Path.Combine(AppContext.BaseDirectory, "native", name + ".c");
        Compile(
            FindCompiler("cc") ?? throw new InvalidOperationException(WhyMissing),
            ["-std=c11", "-O2", "-Wall", "-Wextra", "-pthread", .. options, "-o", path, source, "-ldl"]);
        return path;
    }

    /// <summary>Runs a compiler.</summary>
    /// <exception cref="InvalidOperationException">It failed.</exception>
    public static void Compile(string path, IEnumerable<string> arguments)
    {
        var start = new ProcessStartInfo(path) { UseShellExecute = false, RedirectStandardError = true };
        foreach (var argument in arguments)
            start.ArgumentList.Add(argument);
        using var compiler = Process.Start(start) ?? throw new InvalidOperationException($"{path} did not start.");
        var errors = compiler.StandardError.ReadToEnd();
        compiler.WaitForExit();
        if (compiler.ExitCode != 0)
            throw new InvalidOperationException($"{string.Join(' ', start.ArgumentList)} was not compiled: {errors}");
    }

    /// <summary>A compiler's path; null when there is none.</summary>
    public static string? FindCompiler(string name) => (Environment.GetEnvironmentVariable("PATH") ?? string.Empty)
        .Split(Path.PathSeparator).Select(folder => Path.Combine(folder, name)).FirstOrDefault(File.Exists);
}
