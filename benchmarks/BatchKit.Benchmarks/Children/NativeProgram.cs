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
    public static string Build(string name)
    {
        var folder = Path.Combine(AppContext.BaseDirectory, "native");
        var program = Path.Combine(folder, name);
        var start = new ProcessStartInfo(FindCompiler() ?? throw new InvalidOperationException(WhyMissing))
        {
            ArgumentList = { "-std=c11", "-O2", "-Wall", "-Wextra", "-pthread", "-o", program, program + ".c" },
            UseShellExecute = false,
            RedirectStandardError = true,
        };
        using var compiler = Process.Start(start) ?? throw new InvalidOperationException("The C compiler did not start.");
        var errors = compiler.StandardError.ReadToEnd();
        compiler.WaitForExit();
        return compiler.ExitCode == 0 ? program : throw new InvalidOperationException($"{name}.c was not compiled: {errors}");
    }

    private static string? FindCompiler() => (Environment.GetEnvironmentVariable("PATH") ?? string.Empty)
        .Split(Path.PathSeparator).Select(folder => Path.Combine(folder, "cc")).FirstOrDefault(File.Exists);
}
