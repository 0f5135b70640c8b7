using System.Collections;
using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

/// <summary>The settings that the sections of an application may have. A binder ignores other keys, so a misspelled one would change nothing, in silence.</summary>
/// <remarks>Adapters use it when they register options. Thread-safe. Several options may be read from one section, and a section of its own may stand inside another. So only keys that no options know are named: those with a value, and sections that are spelled almost like one.</remarks>
public sealed class ConfigurationKeys
{
    // In the place of an element's number.
    private const string AnyKey = "*";

    private readonly Lock _gate = new();
    private readonly Dictionary<string, SortedSet<string>> _sections = new(StringComparer.OrdinalIgnoreCase);
    private readonly HashSet<string> _checked = new(StringComparer.OrdinalIgnoreCase);

    /// <summary>Returns the one of these services, and registers it at the first call.</summary>
    /// <param name="services">The services.</param>
    public static ConfigurationKeys Of(IServiceCollection services)
    {
        ArgumentNullException.ThrowIfNull(services);
        foreach (var service in services)
        {
            if (service is { IsKeyedService: false, ImplementationInstance: ConfigurationKeys known })
                return known;
        }

        var keys = new ConfigurationKeys();
        services.AddSingleton(keys);
        return keys;
    }

    /// <summary>Adds the names of options' properties to what may stand in a section, and those of the options inside them (<see cref="InnerOptionsAttribute"/>).</summary>
    /// <typeparam name="TOptions">The options that are read from the section.</typeparam>
    /// <param name="path">The section's path.</param>
    public void Add<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicProperties)] TOptions>(string path)
    {
        ArgumentNullException.ThrowIfNull(path);
        lock (_gate)
            Add(typeof(TOptions), path);
    }

    /// <summary>Logs a warning for each key in the section, and in those inside it, that no options know, and for a section that is missing, or is a value. A second call for a section does nothing.</summary>
    /// <param name="section">The section. Its path was added.</param>
    /// <param name="logger">Gets the warnings. What it throws is ignored.</param>
    public void Check(IConfigurationSection section, ILogger logger)
    {
        ArgumentNullException.ThrowIfNull(section);
        ArgumentNullException.ThrowIfNull(logger);
        Check(section, section.Path, GuardedLogger.Of(logger));
    }

    private void Add([DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicProperties)] Type options, string place)
    {
        var known = KeysAt(place);
        foreach (var property in options.GetProperties())
        {
            known.Add(property.Name);
            if (property.GetCustomAttribute<InnerOptionsAttribute>() is not { } inner)
                continue;
            var innerPlace = ConfigurationPath.Combine(place, property.Name);
            if (property.PropertyType.IsAssignableTo(typeof(IEnumerable)))
            {
                KeysAt(innerPlace).Add(AnyKey);
                innerPlace = ConfigurationPath.Combine(innerPlace, AnyKey);
            }

            Add(inner.Type, innerPlace);
        }
    }

    private SortedSet<string> KeysAt(string place)
    {
        if (!_sections.TryGetValue(place, out var known))
            _sections[place] = known = new SortedSet<string>(StringComparer.OrdinalIgnoreCase);
        return known;
    }

    private void Check(IConfigurationSection section, string place, GuardedLogger logger)
    {
        List<(string Path, string Nearest)> unknown;
        bool isList;
        lock (_gate)
        {
            if (!_sections.TryGetValue(place, out var known) || !_checked.Add(section.Path))
                return;
            isList = known.Contains(AnyKey);
            unknown = isList ? [] : [.. section.GetChildren().Where(key => IsUnknown(key, place, known)).Select(key => (key.Path, FindNearest(key.Key, known)))];
        }

        var hasKeys = section.GetChildren().Any();
        if (!hasKeys && section.Value is null)
            logger.SectionMissing("no section", section.Path);
        else if (!hasKeys && section.Value!.Length > 0)
            logger.SectionMissing("a value instead of the section", section.Path);
        foreach (var (path, nearest) in unknown)
            logger.KeyUnknown(path, nearest);
        // What is null is not missing, and has no keys.
        foreach (var inner in section.GetChildren().Where(static inner => inner.Exists()))
            Check(inner, ConfigurationPath.Combine(place, isList ? AnyKey : inner.Key), logger);
    }

    private bool IsUnknown(IConfigurationSection key, string place, SortedSet<string> known) =>
        !known.Contains(key.Key) && !_sections.ContainsKey(ConfigurationPath.Combine(place, key.Key)) && (key.Value is not null || IsNear(key.Key, FindNearest(key.Key, known)));

    private static string FindNearest(string key, IEnumerable<string> known) => known.MinBy(name => Distance(key, name))!;

    // Two letters at most, and a third of a short name.
    private static bool IsNear(string key, string name) => Distance(key, name) <= Math.Min(2, name.Length / 3);

    /// <summary>How many letters differ: the edit distance of Levenshtein, whatever the case.</summary>
    private static int Distance(string left, string right)
    {
        var row = Enumerable.Range(0, right.Length + 1).ToArray();
        for (var i = 1; i <= left.Length; i++)
        {
            var diagonal = row[0];
            row[0] = i;
            for (var j = 1; j <= right.Length; j++)
            {
                var replaced = diagonal + (char.ToUpperInvariant(left[i - 1]) == char.ToUpperInvariant(right[j - 1]) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.Min(replaced, Math.Min(row[j], row[j - 1]) + 1);
            }
        }

        return row[^1];
    }
}

/// <summary>Names the options that stand in a section under a property: as an object, or as the elements of a list. <see cref="ConfigurationKeys"/> then knows their settings.</summary>
/// <param name="type">The type of the object, or of an element. Trimming keeps its properties.</param>
[AttributeUsage(AttributeTargets.Property)]
public sealed class InnerOptionsAttribute([DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicProperties)] Type type) : Attribute
{
    /// <summary>The type of the object, or of an element.</summary>
    [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicProperties)]
    public Type Type { get; } = type;
}
