using System.Xml.Linq;

namespace BatchKit.Bench.Tests;

/// <summary>A git repository of a user's, with a small project of BenchmarkDotNet's in the folder <c>bench</c>.</summary>
internal sealed class BenchRepository : IDisposable
{
    private readonly Scratch _scratch = new();

    private BenchRepository()
    {
    }

    public string Folder => _scratch.Folder;

    /// <summary>Makes it, with one commit.</summary>
    public static async Task<BenchRepository> CreateAsync()
    {
        var repository = new BenchRepository();
        repository.Write(".gitignore", "bin/\nobj/\nBenchmarkDotNet.Artifacts/\n");
        repository.Write("bench/Bench.csproj", $"""
            <Project Sdk="Microsoft.NET.Sdk">
              <PropertyGroup>
                <OutputType>Exe</OutputType>
                <TargetFramework>net10.0</TargetFramework>
                <ImplicitUsings>enable</ImplicitUsings>
              </PropertyGroup>
              <ItemGroup>
            {string.Join('\n', References().Select(static one => $"""    <PackageReference Include="{one.Name}" Version="{one.Version}" />"""))}
              </ItemGroup>
            </Project>
            """);
        repository.WriteProgram(milliseconds: 1);
        await repository.GitAsync("init", "--quiet", "--initial-branch=main");
        await repository.CommitAsync("first");
        return repository;
    }

    public string In(params string[] parts) => _scratch.In(parts);

    public void Write(string path, string text) => _scratch.Write(path, text);

    /// <summary>Writes the benchmarks: one that takes as long as it is told, one of 20 ms, and one that fills an array.</summary>
    /// <param name="milliseconds">What the first takes.</param>
    /// <param name="passesArguments">Whether the program passes its arguments on.</param>
    public void WriteProgram(int milliseconds, bool passesArguments = true) => Write("bench/Program.cs", $$"""
        using BenchmarkDotNet.Attributes;
        using BenchmarkDotNet.Running;

        {{(passesArguments ? "BenchmarkSwitcher.FromAssembly(typeof(Rooms).Assembly).Run(args);" : "Console.WriteLine(\"Game.Rooms.Say\");")}}

        [MemoryDiagnoser]
        public class Rooms
        {
            [Benchmark(Baseline = true)]
            public void Loop() => Thread.Sleep(20);

            [Benchmark]
            public void Say() => Thread.Sleep({{milliseconds}});

            [Benchmark]
            public byte[] Fill() => new byte[1_000_000];
        }
        """);

    public async Task CommitAsync(string message)
    {
        await GitAsync("add", "--all");
        await GitAsync("-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", message);
    }

    public async Task<string> GitAsync(params string[] arguments)
    {
        var run = await BenchRun.RunProgramAsync(Folder, "git", arguments);
        Assert.True(run.ExitCode == 0, run.Text);
        return run.Output;
    }

    public void Dispose() => _scratch.Dispose();

    // The versions of this repository, so that none needs to be fetched.
    private static IEnumerable<(string Name, string Version)> References()
    {
        var versions = XDocument.Load(Path.Combine(AppContext.BaseDirectory, "Directory.Packages.props")).Descendants("PackageVersion").Where(static element => element.Attribute("Include") is not null)
            .ToDictionary(static element => (string)element.Attribute("Include")!, static element => (string)element.Attribute("Version")!, StringComparer.Ordinal);
        return new[] { "BenchmarkDotNet", "Microsoft.CodeAnalysis.CSharp", "Microsoft.Diagnostics.Tracing.TraceEvent", "System.Management" }.Select(name => (name, versions[name]));
    }
}
