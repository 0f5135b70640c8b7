namespace BatchKit.TestServers.Processes;

/// <summary>A program of this repository, in the folder that its own project was built to.</summary>
/// <remarks>Its copy beside the tests does not start: what the tests' shared framework has is not copied there.</remarks>
public static class BuiltProgram
{
    private static readonly string[] Folders = ["samples", "tests", "tools", "benchmarks"];

    /// <summary>Returns the path of a program's assembly, which has its project's name.</summary>
    /// <exception cref="FileNotFoundException">It was not built in the configuration of the tests.</exception>
    public static string PathOf(string name)
    {
        var tests = new DirectoryInfo(AppContext.BaseDirectory);
        var built = Path.Combine("bin", tests.Parent!.Name, tests.Name, $"{name}.dll");
        var root = tests;
        while (!File.Exists(Path.Combine(root.FullName, "BatchKit.sln")))
            root = root.Parent ?? throw new FileNotFoundException($"{name} is looked for in the repository, and the tests run outside of it: {tests.FullName}.");
        return Array.Find(Array.ConvertAll(Folders, folder => Path.Combine(root.FullName, folder, name, built)), File.Exists)
            ?? throw new FileNotFoundException($"{name} was not built to {built}.");
    }
}
