using System.IO.Compression;
using System.Reflection;
using System.Text.Json;
using System.Xml.Linq;

namespace BatchKit.Architecture.Tests;

/// <summary>The package of templates, packed in a version that the repository does not have.</summary>
public sealed class PackedTemplatesTests(PackedTemplatesTests.PackedTemplates packed) : IClassFixture<PackedTemplatesTests.PackedTemplates>
{
    private const string Version = "9.8.7-test.1";

    [Fact]
    public void A_template_references_the_packages_of_its_own_version_and_others_as_the_repository_does()
    {
        var central = XDocument.Load(Repository.In("Directory.Packages.props")).Descendants("PackageVersion").Where(static element => element.Attribute("Include") is not null)
            .ToDictionary(element => (string)element.Attribute("Include")!, element => (string)element.Attribute("Version")!, StringComparer.Ordinal);

        var projects = packed.Files.Where(file => file.Key.EndsWith(".csproj", StringComparison.Ordinal)).Select(file => XDocument.Parse(file.Value)).ToArray();

        Assert.Equal(3, projects.Length);
        Assert.All(projects, project =>
        {
            var references = project.Descendants("PackageReference").ToDictionary(reference => (string)reference.Attribute("Include")!, reference => (string?)reference.Attribute("Version"), StringComparer.Ordinal);
            Assert.Contains("BatchKit", references);
            Assert.All(references, reference => Assert.Equal(Repository.Packages.Contains(reference.Key, StringComparer.Ordinal) ? Version : central[reference.Key], reference.Value));
        });
    }

    [Fact]
    public void Each_template_has_a_short_name_a_project_and_a_readme()
    {
        var folders = packed.Files.Keys.Where(name => name.EndsWith("/.template.config/template.json", StringComparison.Ordinal)).Select(name => name.Split('/')[1]).ToArray();

        Assert.Equal(["Chat", "Mud", "Worker"], folders.Order(StringComparer.Ordinal));
        Assert.All(folders, folder =>
        {
            using var template = JsonDocument.Parse(packed.Files[$"content/{folder}/.template.config/template.json"]);
            Assert.Equal($"batchkit-{folder.ToLowerInvariant()}", template.RootElement.GetProperty("shortName").GetString());
            Assert.Contains($"content/{folder}/{template.RootElement.GetProperty("sourceName").GetString()}.csproj", packed.Files);
            Assert.Contains($"content/{folder}/README.md", packed.Files);
        });
    }

    [Fact]
    public void The_package_is_of_the_type_that_dotnet_new_finds_and_has_no_assembly()
    {
        var manifest = XDocument.Parse(packed.Files[$"{Repository.Templates}.nuspec"]);

        Assert.Equal("Template", (string?)manifest.Descendants().Single(element => element.Name.LocalName == "packageType").Attribute("name"));
        Assert.DoesNotContain(manifest.Descendants(), element => element.Name.LocalName == "dependency");
        Assert.DoesNotContain(packed.Files.Keys, name => Path.GetExtension(name) is ".dll" or ".in");
    }

    /// <summary>The files of the package, by their paths in it.</summary>
    public sealed class PackedTemplates : IAsyncLifetime
    {
        internal IReadOnlyDictionary<string, string> Files { get; private set; } = new Dictionary<string, string>();

        public async ValueTask InitializeAsync()
        {
            var folder = Directory.CreateTempSubdirectory("batchkit-templates-");
            try
            {
                var configuration = typeof(PackedTemplatesTests).Assembly.GetCustomAttribute<AssemblyConfigurationAttribute>()!.Configuration;
                var result = await DotnetCommand.RunAsync("dotnet", "pack", Repository.In("src", Repository.Templates), "--no-build", "--configuration", configuration, "--output", folder.FullName,
                    $"-p:Version={Version}", "-nodeReuse:false");
                Assert.True(result.ExitCode == 0, result.Text);
                Files = await ReadAsync(Path.Combine(folder.FullName, $"{Repository.Templates}.{Version}.nupkg"));
            }
            finally
            {
                folder.Delete(recursive: true);
            }
        }

        public ValueTask DisposeAsync() => ValueTask.CompletedTask;

        private static async Task<Dictionary<string, string>> ReadAsync(string path)
        {
            var files = new Dictionary<string, string>(StringComparer.Ordinal);
            await using var package = await ZipFile.OpenReadAsync(path);
            foreach (var entry in package.Entries)
            {
                using var reader = new StreamReader(await entry.OpenAsync());
                files.Add(entry.FullName, await reader.ReadToEndAsync());
            }

            return files;
        }
    }
}
