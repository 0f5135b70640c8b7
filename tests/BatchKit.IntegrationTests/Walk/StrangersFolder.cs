using System.Reflection;
using System.Xml.Linq;
using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests.Walk;

/// <summary>A folder outside the repository with the recipes of the front page and a project from each template, built against the packed packages with warnings as errors.</summary>
public sealed class StrangersFolder : IAsyncLifetime
{
    // Names that no namespace may have: the code of a template does not contain its project's name.
    public const string Mud = "A..B";
    public const string Chat = "1 Harbour-Chat";
    public const string Worker = "class";

    // Names of packages, of BatchKit and of others, that the projects reference.
    private static readonly (string Template, string Name)[] NamedAsPackages =
        [("batchkit-mud", "BatchKit.Broadcast"), ("batchkit-chat", "RabbitMQ.Client"), ("batchkit-worker", "BatchKit")];

    private static readonly string[] Packages = ["BatchKit", "BatchKit.Broadcast", "BatchKit.Mqtt", "BatchKit.Postgres", "BatchKit.RabbitMQ", "BatchKit.Sockets", "BatchKit.Templates"];
    private static readonly string[] Recipes = ["QuickStart", "Sensors", "Tasks", "TickLoop", "TwoNodeChat"];

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-stranger-");

    /// <summary>The port that the MUD's project was made with.</summary>
    public int MudPort { get; } = FreePort.Take(1)[0];

    /// <summary>The folder of one recipe's or template's project.</summary>
    public DirectoryInfo this[string project] => new(Path.Combine(_folder.FullName, project));

    private static string Root { get; } = FindRoot();

    private static string Version { get; } = VersionOf("Directory.Build.props", "Version", _ => true);

    private string Hive => Path.Combine(_folder.FullName, "hive");

    public async ValueTask InitializeAsync()
    {
        await PackAsync();
        await WriteSettingsAsync();
        foreach (var recipe in Recipes)
            Copy(recipe);
        await RunAsync("new", "install", Path.Combine(_folder.FullName, "packed", $"BatchKit.Templates.{Version}.nupkg"), "--debug:custom-hive", Hive);
        await CreateAsync("batchkit-mud", Mud, "--port", $"{MudPort}");
        await CreateAsync("batchkit-chat", Chat);
        await CreateAsync("batchkit-worker", Worker);
        foreach (var (template, name) in NamedAsPackages)
            await CreateAsync(template, name);
        var projects = Recipes.Concat([Mud, Chat, Worker, .. NamedAsPackages.Select(project => project.Name)]).Select(project => new XElement("Project", new XAttribute("Path", $"{project}/{project}.csproj")));
        await WriteAsync("Projects.slnx", new XElement("Solution", projects));
        await RunAsync("build", Path.Combine(_folder.FullName, "Projects.slnx"), "--configuration", "Debug", "-nodeReuse:false");
    }

    /// <summary>Makes a project from a template.</summary>
    public Task CreateAsync(string template, string name, params string[] parameters) =>
        RunAsync(["new", template, "--name", name, "--output", this[name].FullName, "--debug:custom-hive", Hive, "--no-update-check", .. parameters]);

    public ValueTask DisposeAsync()
    {
        _folder.Delete(recursive: true);
        return ValueTask.CompletedTask;
    }

    // What this build has made, packed side by side in one process.
    private async Task PackAsync()
    {
        var configuration = typeof(StrangersFolder).Assembly.GetCustomAttribute<AssemblyConfigurationAttribute>()!.Configuration;
        var projects = string.Join(';', Packages.Select(package => Path.Combine(Root, "src", package, $"{package}.csproj")));
        await WriteAsync("Pack.proj", new XElement("Project", new XElement("Target", new XAttribute("Name", "Pack"), new XElement(
            "MSBuild",
            new XAttribute("Projects", projects),
            new XAttribute("Targets", "Pack"),
            new XAttribute("BuildInParallel", "true"),
            // The manifests go to this folder too, because another test program may pack the same projects at the same time.
            new XAttribute("Properties", $"NoBuild=true;Configuration={configuration};PackageOutputPath={Path.Combine(_folder.FullName, "packed")};NuspecOutputPath={Path.Combine(_folder.FullName, "manifests")}/")))));
        await RunAsync("msbuild", Path.Combine(_folder.FullName, "Pack.proj"), "-maxCpuCount", "-nodeReuse:false");
    }

    private async Task WriteSettingsAsync()
    {
        await WriteAsync("nuget.config", XElement.Parse("""<configuration><packageSources><add key="packed" value="packed" /></packageSources></configuration>"""));
        await WriteAsync("Directory.Build.props", new XElement("Project", new XElement(
            "PropertyGroup",
            new XElement("TreatWarningsAsErrors", "true"),
            new XElement("NuGetAudit", "false"),
            // A folder of its own, or a package of the same version from an earlier run would be taken.
            new XElement("RestorePackagesPath", Path.Combine(_folder.FullName, "restored")))));
    }

    // The sample's files as they are, and its project with packages where it has projects of the repository.
    private void Copy(string recipe)
    {
        var source = Path.Combine(Root, "samples", recipe);
        var target = Directory.CreateDirectory(this[recipe].FullName).FullName;
        foreach (var path in Directory.EnumerateFiles(source, "*", SearchOption.AllDirectories))
        {
            var name = Path.GetRelativePath(source, path);
            if (name.EndsWith(".csproj", StringComparison.Ordinal) || name.Split(Path.DirectorySeparatorChar)[0] is "bin" or "obj")
                continue;
            Directory.CreateDirectory(Path.GetDirectoryName(Path.Combine(target, name))!);
            File.Copy(path, Path.Combine(target, name));
        }

        ProjectOf(Path.Combine(source, $"{recipe}.csproj")).Save(Path.Combine(target, $"{recipe}.csproj"));
    }

    private XElement ProjectOf(string sample)
    {
        var project = XElement.Load(sample);
        foreach (var reference in project.Descendants("ProjectReference").ToArray())
            reference.ReplaceWith(Reference(Path.GetFileNameWithoutExtension((string)reference.Attribute("Include")!), Version));
        foreach (var reference in project.Descendants("PackageReference").Where(reference => reference.Attribute("Version") is null).ToArray())
        {
            var name = (string)reference.Attribute("Include")!;
            reference.ReplaceWith(Reference(name, VersionOf("Directory.Packages.props", "PackageVersion", element => (string?)element.Attribute("Include") == name)));
        }

        project.AddFirst(new XElement(
            "PropertyGroup",
            new XElement("TargetFramework", "net10.0"),
            new XElement("Nullable", "enable"),
            new XElement("ImplicitUsings", "enable")));
        return project;
    }

    private static XElement Reference(string package, string version) =>
        new("PackageReference", new XAttribute("Include", package), new XAttribute("Version", $"[{version}]"));

    private static string VersionOf(string file, string element, Func<XElement, bool> isIt)
    {
        var found = XElement.Load(Path.Combine(Root, file)).Descendants(element).First(isIt);
        return (string?)found.Attribute("Version") ?? found.Value;
    }

    private static async Task RunAsync(params string[] arguments)
    {
        var result = await DotnetCommand.RunAsync("dotnet", arguments);
        Assert.True(result.ExitCode == 0, result.Text);
    }

    private async Task WriteAsync(string name, XElement content) => await File.WriteAllTextAsync(Path.Combine(_folder.FullName, name), content.ToString());

    private static string FindRoot()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder.FullName, "BatchKit.sln")))
            folder = folder.Parent ?? throw new InvalidOperationException("These tests run from inside the repository, below BatchKit.sln.");
        return folder.FullName;
    }
}

/// <summary>The tests that share the folder, which is built once for them.</summary>
[CollectionDefinition]
public sealed class StrangersCollection : ICollectionFixture<StrangersFolder>;
