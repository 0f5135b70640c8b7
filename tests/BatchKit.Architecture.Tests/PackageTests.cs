using System.Reflection;
using System.Xml.Linq;

namespace BatchKit.Architecture.Tests;

public sealed class PackageTests
{
    private const string Core = "BatchKit";

    // MassTransit itself finds consumers and serialises by reflection.
    private const string ByReflection = "BatchKit.MassTransit";

    // The clients with and without ASP.NET Core are one thing in two packages (docs/decisions/0148).
    private const string Web = "BatchKit.Broadcast";
    private const string WithoutWeb = "BatchKit.Sockets";

    public static TheoryData<string> Packages => [.. Repository.Packages];

    [Theory]
    [MemberData(nameof(Packages))]
    public void A_package_references_no_other_but_the_core(string package)
    {
        var project = XDocument.Load(Repository.In("src", package, $"{package}.csproj"));

        var references = project.Descendants("ProjectReference").Where(reference => (string?)reference.Attribute("ReferenceOutputAssembly") != "false").Select(reference => Path.GetFileNameWithoutExtension((string?)reference.Attribute("Include")));
        var loaded = Assembly.Load(package).GetReferencedAssemblies().Select(reference => reference.Name).Where(name => name!.StartsWith(Core, StringComparison.Ordinal));

        Assert.Equal(package switch { Core => "", Web => WithoutWeb, _ => Core }, string.Join(", ", references));
        Assert.All(loaded, name => Assert.True(name == Core || (package, name) == (Web, WithoutWeb), name));
    }

    [Fact]
    public void Sockets_need_no_web_framework()
    {
        var project = XDocument.Load(Repository.In("src", WithoutWeb, $"{WithoutWeb}.csproj"));

        Assert.Empty(project.Descendants("FrameworkReference"));
        Assert.DoesNotContain(Assembly.Load(WithoutWeb).GetReferencedAssemblies(), reference => reference.Name!.StartsWith("Microsoft.AspNetCore", StringComparison.Ordinal));
    }

    [Theory]
    [MemberData(nameof(Packages))]
    public void A_package_is_safe_to_trim_and_to_compile_ahead(string package)
    {
        var project = XDocument.Load(Repository.In("src", package, $"{package}.csproj"));
        var metadata = Assembly.Load(package).GetCustomAttributes<AssemblyMetadataAttribute>();

        var isTrimmable = metadata.Any(entry => entry is { Key: "IsTrimmable", Value: "True" });

        Assert.Equal(package != ByReflection, isTrimmable);
        if (package != ByReflection)
            Assert.DoesNotContain(project.Descendants(), element => element.Name.LocalName is "IsAotCompatible" or "TreatWarningsAsErrors" || element.Name.LocalName.StartsWith("Enable", StringComparison.Ordinal));
    }

    [Theory]
    [MemberData(nameof(Packages))]
    public void A_package_has_a_readme(string package) => Assert.True(File.Exists(Repository.In("src", package, "README.md")));
}
