using System.Reflection;

namespace BatchKit.Architecture.Tests.PublicApi;

public sealed class PublicApiTests
{
    private const string AcceptVariable = "BATCHKIT_ACCEPT_PUBLIC_API";

    public static TheoryData<string> Packages => [.. Repository.Packages];

    [Theory]
    [MemberData(nameof(Packages))]
    public void A_packages_public_API_is_the_approved_one(string package)
    {
        var path = Repository.In("tests", "BatchKit.Architecture.Tests", "PublicApi", $"{package}.txt");
        var actual = PublicApiText.Describe(Assembly.Load(package));

        if (Environment.GetEnvironmentVariable(AcceptVariable) == "1")
            File.WriteAllText(path, actual);
        var approved = File.Exists(path) ? File.ReadAllText(path).ReplaceLineEndings("\n") : string.Empty;

        Assert.True(actual == approved, $"The public API of {package} is not the approved one:\n{Difference(approved, actual)}\n"
            + $"If that is meant, run the test with {AcceptVariable}=1 and commit {Path.GetRelativePath(Repository.Root, path)} with the change.");
    }

    [Fact]
    public void Every_approved_text_belongs_to_a_package()
    {
        var approved = Directory.GetFiles(Repository.In("tests", "BatchKit.Architecture.Tests", "PublicApi"), "*.txt");

        Assert.Equal([.. Repository.Packages], approved.Select(path => Path.GetFileNameWithoutExtension(path)!).Order(StringComparer.Ordinal).ToArray());
    }

    private static string Difference(string approved, string actual)
    {
        var before = approved.Split('\n');
        var after = actual.Split('\n');
        return string.Join('\n', before.Except(after, StringComparer.Ordinal).Select(line => $"- {line}")
            .Concat(after.Except(before, StringComparer.Ordinal).Select(line => $"+ {line}")));
    }
}
