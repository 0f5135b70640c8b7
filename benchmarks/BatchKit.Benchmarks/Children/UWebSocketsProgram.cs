namespace BatchKit.Benchmarks.Children;

/// <summary>uWebSockets (Apache 2.0) with our server on it. Its sources are the user's own checkout.</summary>
internal static class UWebSocketsProgram
{
    /// <summary>The path of a checkout of uWebSockets in whose uSockets folder <c>make</c> has made <c>uSockets.a</c>, without TLS.</summary>
    public const string Variable = "BATCHKIT_UWEBSOCKETS";

    private const string Source = "uwebsockets.cpp";
    private const string Compiler = "c++";

    private static readonly Lazy<string> Built = new(Compile);

    /// <summary>Why there is none here; null when there is one.</summary>
    public static string? WhyMissing { get; } = FindObstacle();

    private static string Checkout => Environment.GetEnvironmentVariable(Variable) ?? string.Empty;

    private static string Library => Path.Combine(Checkout, "uSockets", "uSockets.a");

    /// <returns>The program's path. It is built once.</returns>
    public static string Build() => Built.Value;

    private static string? FindObstacle() =>
        Checkout.Length == 0 ? $"{Variable} names no checkout of uWebSockets"
        : !File.Exists(Library) ? $"{Library}, which {Variable} asks for, is missing"
        : NativeProgram.FindCompiler(Compiler) is null ? $"there is no C++ compiler '{Compiler}' on the path"
        : null;

    private static string Compile()
    {
        var path = Path.Combine(AppContext.BaseDirectory, "peers", "uwebsockets");
        NativeProgram.Compile(
            NativeProgram.FindCompiler(Compiler) ?? throw new InvalidOperationException(WhyMissing),
            ["-std=c++20", "-O3", "-march=native", "-flto=auto", "-pthread", "-w", "-DLIBUS_NO_SSL", "-DUWS_NO_ZLIB", $"-I{Checkout}/src", $"-I{Checkout}/uSockets/src",
                "-o", path, Path.Combine(AppContext.BaseDirectory, "peers", Source), Library]);
        return path;
    }
}
