using System.Globalization;
using System.Reflection;
using System.Text.Json;
using System.Text.RegularExpressions;

namespace BatchKit.Architecture.Tests;

/// <summary>The reference pages have what the packages have: settings, commands, parameters.</summary>
public sealed partial class ReferenceTests
{
    // The pages that have every setting with its default and its limits.
    private static readonly string[] PagesWithLimits = ["BatchKit", "BatchKit.Sockets"];

    private static readonly string[] CommandsOfBench = ["CompareCommand.cs", "GateCommand.cs", "InitCommand.cs", "RunCommand.cs", "UserCommands.cs"];

    // Commands of the program that are for this repository alone.
    private static readonly string[] HiddenCommands = ["figures", "inject", "--check"];

    [Fact]
    public void Each_setting_of_a_package_stands_on_its_reference_page()
    {
        var missing = from package in Repository.Packages
                      let page = PageOf(package)
                      from setting in SettingsOf(package)
                      where !page.Any(line => line.Contains($"`{setting.Name}`", StringComparison.Ordinal) || line.Contains($".{setting.Name}`", StringComparison.Ordinal) || line.Contains($"`{setting.Name} = ", StringComparison.Ordinal))
                      select $"{package}: {setting.DeclaringType!.Name}.{setting.Name}";

        AssertNone(missing);
    }

    [Fact]
    public void The_limits_and_the_default_of_a_setting_stand_beside_its_name()
    {
        var wrong = from package in PagesWithLimits
                    let page = PageOf(package)
                    from setting in SettingsOf(package)
                    let range = OptionsLimitTests.RangeOf(setting)
                    where range is { Most: not (int.MaxValue or long.MaxValue) }
                    let limits = $"{TextOf(setting, range.Least)} to {TextOf(setting, range.Most)}"
                    let usual = TextOf(setting, setting.GetValue(Activator.CreateInstance(setting.DeclaringType!)))
                    where !page.Any(line => line.Contains($"`{setting.Name}`", StringComparison.Ordinal) && line.Contains(limits, StringComparison.Ordinal) && line.Contains(usual, StringComparison.Ordinal))
                    select $"{package}: {setting.Name} ({usual}; {limits})";

        AssertNone(wrong);
    }

    [Fact]
    public void Each_command_and_option_of_the_tools_stands_on_its_reference_page()
    {
        var tool = Repository.Files("tools/BatchKit.Tool").Select(path => (Path: path, Page: "tool"));
        var bench = Repository.Files("benchmarks/BatchKit.Benchmarks").Where(path => CommandsOfBench.Contains(Path.GetFileName(path), StringComparer.Ordinal)).Select(path => (Path: path, Page: "bench"));
        var missing = from file in tool.Concat(bench)
                      where file.Path.EndsWith(".cs", StringComparison.Ordinal)
                      from match in CommandOrOption.Matches(File.ReadAllText(file.Path))
                      let name = match.Groups["name"].Value
                      where !HiddenCommands.Contains(name, StringComparer.Ordinal) && !Regex.IsMatch(ReadPage(file.Page), $@"[` ]{name}(?![\w-])", RegexOptions.None, TimeSpan.FromSeconds(10))
                      select $"{file.Page}: {name}";

        AssertNone(missing.Distinct(StringComparer.Ordinal));
    }

    [Fact]
    public void Each_template_and_parameter_stands_with_its_default_on_the_reference_page()
    {
        var page = ReadPage("templates");
        var templates = Repository.Files("src/BatchKit.Templates").Where(path => Path.GetFileName(path) == "template.json").Select(path => JsonDocument.Parse(File.ReadAllText(path)).RootElement).ToArray();
        var missing = from template in templates
                      from symbol in template.GetProperty("symbols").EnumerateObject()
                      where symbol.Value.GetProperty("type").GetString() == "parameter"
                      from text in new[] { $"`{template.GetProperty("shortName").GetString()}`", $"`--{symbol.Name}`", symbol.Value.GetProperty("defaultValue").GetString()! }
                      where !page.Contains(text, StringComparison.Ordinal)
                      select text;

        Assert.Equal(3, templates.Length);
        AssertNone(missing);
    }

    private static IEnumerable<PropertyInfo> SettingsOf(string package) =>
        from type in Assembly.Load(package).GetExportedTypes()
        where type is { IsClass: true, IsAbstract: false } && (type.Name.EndsWith("Options", StringComparison.Ordinal) || type.Name is "FrameLimits" or "InputLimits")
        from property in type.GetProperties(BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly)
        select property;

    private static string[] PageOf(string package) => ReadPage(package == "BatchKit" ? "core" : package["BatchKit.".Length..].ToLowerInvariant()).Split('\n');

    private static string ReadPage(string name) => File.ReadAllText(Repository.In("docs", "reference", $"{name}.md"));

    // As the pages write it.
    private static string TextOf(PropertyInfo setting, object? value) => value switch
    {
        TimeSpan time => TextOf(time),
        int or long when setting.Name.Contains("Byte", StringComparison.Ordinal) => BytesOf(Convert.ToInt64(value, CultureInfo.InvariantCulture)),
        int or long => Convert.ToInt64(value, CultureInfo.InvariantCulture).ToString("N0", CultureInfo.InvariantCulture),
        _ => "",
    };

    private static string TextOf(TimeSpan time) => time switch
    {
        { Ticks: 0 } => "0",
        { TotalDays: >= 1 } => time.Days == 1 ? "1 day" : $"{time.Days} days",
        { TotalHours: >= 1 } => $"{time.Hours} h",
        { TotalMinutes: >= 1 } => $"{time.Minutes} min",
        { TotalSeconds: >= 1 } => $"{time.Seconds} s",
        _ => $"{time.Milliseconds} ms",
    };

    private static string BytesOf(long bytes)
    {
        string[] units = ["KiB", "MiB", "GiB", "TiB"];
        var unit = -1;
        for (; unit < units.Length - 1 && bytes >= 1024 && bytes % 1024 == 0; unit++)
            bytes /= 1024;
        return unit >= 0 ? $"{bytes} {units[unit]}" : bytes == 1 ? "1 byte" : $"{bytes} bytes";
    }

    private static void AssertNone(IEnumerable<string> offences) => Assert.True(!offences.Any(), string.Join(Environment.NewLine, offences));

    [GeneratedRegex("""new Command\("(?<name>[a-z]+)"|"(?<name>--[a-z-]+)["=]""", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex CommandOrOption { get; }
}
