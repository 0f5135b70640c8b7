using System.IO.Compression;
using System.Reflection;
using System.Text.Json;
using System.Xml.Linq;

namespace BatchKit.Architecture.Tests;

/// <summary>What a gallery and a project that restores the packages see of them.</summary>
public sealed class PackedPackagesTests(PackedPackagesTests.PackedPackages packed) : IClassFixture<PackedPackagesTests.PackedPackages>
{
    // An application that has not updated for months. The packages must not force a newer version on it.
    private const string OlderExtensions = "10.0.8";

    [Fact]
    public void A_package_shows_where_it_comes_from_and_what_is_new()
    {
        Assert.All(packed.Manifests, manifest =>
        {
            Assert.Equal("icon.png", manifest.Value("icon"));
            Assert.Equal("README.md", manifest.Value("readme"));
            Assert.Equal("MIT", manifest.Value("license"));
            Assert.StartsWith("https://", manifest.Value("projectUrl"), StringComparison.Ordinal);
            Assert.StartsWith("## [", manifest.Value("releaseNotes"), StringComparison.Ordinal);
            Assert.DoesNotContain("\n## ", manifest.Value("releaseNotes"), StringComparison.Ordinal);
            Assert.StartsWith("https://", (string?)manifest.Element("repository").Attribute("url"), StringComparison.Ordinal);
            Assert.Matches("^[0-9a-f]{40}$", (string?)manifest.Element("repository").Attribute("commit"));
        });
        Assert.Distinct(packed.Manifests.Select(manifest => manifest.Value("tags")));
    }

    [Fact]
    public void A_package_depends_on_what_its_project_names_and_on_nothing_else() => Assert.All(packed.Libraries, manifest =>
    {
        var project = XDocument.Load(Repository.In("src", manifest.Name, $"{manifest.Name}.csproj"));
        var named = from reference in project.Descendants()
                    where reference.Name.LocalName is "PackageReference" or "ProjectReference" && (string?)reference.Attribute("ReferenceOutputAssembly") != "false"
                    select Path.GetFileName((string)reference.Attribute("Include")!).Replace(".csproj", "", StringComparison.Ordinal);

        Assert.Equal(named.Order(StringComparer.Ordinal), manifest.Dependencies.Select(dependency => dependency.Name).Order(StringComparer.Ordinal));
    });

    [Fact]
    public void A_package_asks_for_the_first_release_of_the_platforms_extensions()
    {
        var extensions = packed.Libraries.SelectMany(manifest => manifest.Dependencies).Where(dependency => dependency.Name.StartsWith("Microsoft.Extensions.", StringComparison.Ordinal));

        Assert.NotEmpty(extensions);
        Assert.All(extensions, dependency => Assert.Equal("10.0.0", dependency.Version));
    }

    [Fact]
    public void A_package_depends_on_packages_of_its_own_release_only()
    {
        var family = from manifest in packed.Libraries
                     from dependency in manifest.Dependencies
                     where dependency.Name.StartsWith("BatchKit", StringComparison.Ordinal)
                     select (dependency.Version, Expected: $"[{manifest.Value("version")}]");

        Assert.NotEmpty(family);
        Assert.All(family, dependency => Assert.Equal(dependency.Expected, dependency.Version));
    }

    [Fact]
    public void A_package_tells_its_own_news_and_none_of_other_packages() => Assert.All(packed.Libraries, manifest =>
    {
        var entries = manifest.Value("releaseNotes").Split("\n- ").Skip(1).Where(entry => entry.StartsWith('`')).ToArray();

        Assert.NotEmpty(entries);
        Assert.All(entries, entry => Assert.Contains($"`{manifest.Name}`", entry.Split(':')[0], StringComparison.Ordinal));
    });

    [Theory]
    [InlineData("BatchKit.MassTransit", "MassTransit", "[8.4.0, 9.0.0)")]
    [InlineData("BatchKit.MassTransit", "MassTransit.RabbitMQ", "[8.4.0, 9.0.0)")]
    [InlineData("BatchKit.RabbitMQ", "RabbitMQ.Client", "[7.1.2, 8.0.0)")]
    public void A_package_refuses_the_next_version_whose_licence_or_api_differs(string package, string dependency, string range) =>
        Assert.Equal(range, packed.Libraries.Single(manifest => manifest.Name == package).Dependencies.Single(other => other.Name == dependency).Version);

    [Fact]
    public void A_package_readme_has_no_link_that_is_dead_on_a_gallery() => Assert.All(packed.Manifests, manifest => Assert.Empty(DocumentTests.RelativeLinks(manifest.Readme)));

    [Fact]
    [Trait("Lane", "night: projects are built")]
    public async Task An_application_with_older_extensions_restores_with_warnings_as_errors()
    {
        var folder = Directory.CreateDirectory(Path.Combine(packed.Folder, "older-application")).FullName;
        string[] older = [.. ((string[])["Hosting.Abstractions", "Options"]).Select(name => $"""<PackageReference Include="Microsoft.Extensions.{name}" Version="{OlderExtensions}" />""")];
        await WriteProjectAsync(folder, "", older.Concat(packed.Libraries.Select(Reference)));

        var restored = await DotnetCommand.RunAsync("dotnet", "restore", folder, "-p:NuGetAudit=false", "-nodeReuse:false");

        Assert.True(restored.ExitCode == 0, restored.Text);
    }

    [Fact]
    [Trait("Lane", "night: projects are built")]
    public async Task A_console_program_attaches_streams_and_broadcasts_without_the_web_framework()
    {
        var folder = Directory.CreateDirectory(Path.Combine(packed.Folder, "console-program")).FullName;
        var manifest = packed.Libraries.Single(manifest => manifest.Name == "BatchKit.Sockets");
        File.Copy(Repository.In("samples", "Packets", "Program.cs"), Path.Combine(folder, "Program.cs"));
        await WriteProjectAsync(folder, "<OutputType>Exe</OutputType><Nullable>enable</Nullable><ImplicitUsings>enable</ImplicitUsings>", [Reference(manifest)]);

        var published = await DotnetCommand.RunAsync("dotnet", "publish", folder, "--output", Path.Combine(folder, "app"), "-p:NuGetAudit=false", "-nodeReuse:false", "-p:UseSharedCompilation=false");
        Assert.True(published.ExitCode == 0, published.Text);
        var ran = await DotnetCommand.RunAsync("dotnet", Path.Combine(folder, "app", "Application.dll"));

        using var settings = JsonDocument.Parse(await File.ReadAllTextAsync(Path.Combine(folder, "app", "Application.runtimeconfig.json"), TestContext.Current.CancellationToken));
        var framework = settings.RootElement.GetProperty("runtimeOptions").GetProperty("framework").GetProperty("name").GetString();
        Assert.Equal("Microsoft.NETCore.App", framework);
        Assert.True(ran.ExitCode == 0, ran.Text);
        Assert.Contains("1000 packets have arrived", ran.Text, StringComparison.Ordinal);
    }

    private static string Reference(Manifest manifest) => $"""<PackageReference Include="{manifest.Name}" Version="[{manifest.Value("version")}]" />""";

    // A folder of restored packages for all projects: a package of the same version from an earlier run would be taken.
    private async Task WriteProjectAsync(string folder, string properties, IEnumerable<string> references)
    {
        await File.WriteAllTextAsync(Path.Combine(folder, "nuget.config"), $"""
            <configuration><packageSources><add key="packed" value="{packed.Folder}" /></packageSources></configuration>
            """, TestContext.Current.CancellationToken);
        await File.WriteAllTextAsync(Path.Combine(folder, "Application.csproj"), $"""
            <Project Sdk="Microsoft.NET.Sdk">
              <PropertyGroup>
                <TargetFramework>net10.0</TargetFramework>
                <TreatWarningsAsErrors>true</TreatWarningsAsErrors>
                <RestorePackagesPath>{Path.Combine(packed.Folder, "restored")}</RestorePackagesPath>
                {properties}
              </PropertyGroup>
              <ItemGroup>
                {string.Join('\n', references)}
              </ItemGroup>
            </Project>
            """, TestContext.Current.CancellationToken);
    }

    /// <summary>All packages, packed once from this build.</summary>
    public sealed class PackedPackages : IAsyncLifetime
    {
        private static readonly string[] Tools = ["BatchKit.Bench", "BatchKit.Tool"];

        private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-packed-");

        public string Folder => _folder.FullName;

        internal IReadOnlyList<Manifest> Manifests { get; private set; } = [];

        /// <summary>All but the tools, which have their dependencies inside, and the templates, which have none.</summary>
        internal IEnumerable<Manifest> Libraries => Manifests.Where(manifest => Repository.Packages.Contains(manifest.Name, StringComparer.Ordinal));

        public async ValueTask InitializeAsync()
        {
            var configuration = typeof(PackedPackagesTests).Assembly.GetCustomAttribute<AssemblyConfigurationAttribute>()!.Configuration;
            var result = await DotnetCommand.RunAsync("dotnet", "pack", Repository.In("BatchKit.sln"), "--no-build", "--configuration", configuration, "--output", Folder, "-nodeReuse:false");
            Assert.True(result.ExitCode == 0, result.Text);
            Manifests = [.. Directory.GetFiles(Folder, "*.nupkg").Select(Manifest.Read)];
            Assert.Equivalent(Repository.Packages.Append(Repository.Templates).Concat(Tools), Manifests.Select(manifest => manifest.Name), strict: true);
        }

        public ValueTask DisposeAsync()
        {
            _folder.Delete(recursive: true);
            return ValueTask.CompletedTask;
        }
    }

    /// <summary>A package's nuspec and readme.</summary>
    internal sealed record Manifest(XElement Metadata, string Readme)
    {
        public string Name => Value("id");

        public IEnumerable<(string Name, string Version)> Dependencies =>
            Metadata.Descendants().Where(element => element.Name.LocalName == "dependency").Select(element => ((string)element.Attribute("id")!, (string)element.Attribute("version")!));

        public static Manifest Read(string path)
        {
            using var package = ZipFile.OpenRead(path);
            using var nuspec = package.Entries.Single(entry => entry.FullName.EndsWith(".nuspec", StringComparison.Ordinal)).Open();
            using var readme = new StreamReader(package.GetEntry("README.md")!.Open());
            return new Manifest(XDocument.Load(nuspec).Root!.Elements().Single(), readme.ReadToEnd());
        }

        public XElement Element(string name) => Metadata.Elements().Single(element => element.Name.LocalName == name);

        public string Value(string name) => Element(name).Value;
    }
}
