using System.Diagnostics;

namespace BatchKit.Benchmarks.Children;

/// <summary>A program in C, built when it is first needed.</summary>
internal static class NativeProgram
{
    /// <summary>Why there is none here; null when there is a compiler.</summary>
    public static string? WhyMissing { get; } = FindCompiler() is null ? "there is no C compiler 'cc' on the path" : null;

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
        var start = new ProcessStartInfo(FindCompiler() ?? throw new InvalidOperationException(WhyMissing))
        {
            UseShellExecute = false,
            RedirectStandardError = true,
        };
        var source = Path.Combine(AppContext.BaseDirectory, "native", name + ".c");
        foreach (var argument in (string[])["-std=c11", "-O2", "-Wall", "-Wextra", "-pthread", .. options, "-o", path, source, "-ldl"])
            start.ArgumentList.Add(argument);
        using var compiler = Process.Start(start) ?? throw new InvalidOperationException("The C compiler did not start.");
        var errors = compiler.StandardError.ReadToEnd();
        compiler.WaitForExit();
        return compiler.ExitCode == 0 ? path : throw new InvalidOperationException($"{name}.c was not compiled: {errors}");
    }

    private static string? FindCompiler() => (Environment.GetEnvironmentVariable("PATH") ?? string.Empty)
        .Split(Path.PathSeparator).Select(folder => Path.Combine(folder, "cc")).FirstOrDefault(File.Exists);
}
