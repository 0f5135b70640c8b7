using System.ComponentModel.DataAnnotations;
using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Microsoft.Extensions.Options;

namespace BatchKit;

/// <summary>Registers and checks the options of a package that extends <see cref="BatchKitBuilder"/>. Every error begins with the options' type, and says where they are set.</summary>
internal static class OptionsRules
{
    private const DynamicallyAccessedMemberTypes Kept = DynamicallyAccessedMemberTypes.PublicParameterlessConstructor | DynamicallyAccessedMemberTypes.PublicProperties;

    /// <summary>Registers named options that are checked when the host starts. It may be called again for the same options: settings add up, in the order of the calls, and a section is read once, at the first call that has it.</summary>
    /// <typeparam name="TOptions">The options.</typeparam>
    /// <param name="services">The services.</param>
    /// <param name="name">The options' name: that of the buffer, or of whatever they belong to.</param>
    /// <param name="rules">Checks the options, as a generated validator does.</param>
    /// <param name="configure">Changes the options after they were read from the configuration; null for no change.</param>
    /// <param name="section">The section that the options are read from, once; errors name its path. Null for none.</param>
    /// <param name="bind">Reads the options from the section: a call of <c>Bind</c> in the package, so that its binding is generated there.</param>
    /// <param name="owner">What errors call the thing that the name belongs to.</param>
    public static void Add<[DynamicallyAccessedMembers(Kept)] TOptions>(
        IServiceCollection services, string name, IValidateOptions<TOptions> rules, Action<TOptions>? configure,
        IConfiguration? section = null, Action<IConfiguration, TOptions>? bind = null, string owner = "the output buffer")
        where TOptions : class
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(rules);
        var path = (section as IConfigurationSection)?.Path;
        var options = services.AddOptions<TOptions>(name);
        var known = services.Select(static service => service is { IsKeyedService: false } ? service.ImplementationInstance as NamedRules<TOptions> : null)
            .FirstOrDefault(other => other?.Name == name);
        if (known is null)
        {
            services.AddSingleton<IValidateOptions<TOptions>>(known = new NamedRules<TOptions>(name, owner, rules));
            options.ValidateOnStart();
        }

        if (path is not null)
            ConfigurationKeys.Of(services).Add<TOptions>(path);
        // A section that both directions are given is read before the changes in code of either.
        if (section is not null && bind is not null && known.AddSection(section))
        {
            options.Configure<IServiceProvider>((bound, provider) =>
            {
                Read(section, bound, bind, name, owner);
                Check(section, provider);
            });
        }

        if (configure is not null)
            options.Configure(configure);
    }

    private static void Check(IConfiguration section, IServiceProvider provider)
    {
        if (section is IConfigurationSection named)
            provider.GetRequiredService<ConfigurationKeys>().Check(named, provider.GetService<ILoggerFactory>()?.CreateLogger("BatchKit.Configuration") ?? NullLogger.Instance);
    }

    // A value that is not of its setting's type: the binder's error has the value and the path, and not the options' type. A FormatException of SectionReader says itself what to write.
    private static void Read<[DynamicallyAccessedMembers(Kept)] TOptions>(IConfiguration section, TOptions options, Action<IConfiguration, TOptions> bind, string name, string owner)
        where TOptions : class
    {
        try
        {
            bind(section, options);
        }
        catch (Exception exception) when (exception is InvalidOperationException or FormatException)
        {
            var fault = FailureText.MessageOf(exception);
            var path = (section as IConfigurationSection)?.Path;
            var key = section.AsEnumerable(makePathsRelative: true).Select(static pair => pair.Key)
                .FirstOrDefault(key => fault.Contains($"'{(path is null ? key : ConfigurationPath.Combine(path, key))}'", StringComparison.OrdinalIgnoreCase));
            var setting = key is null ? typeof(TOptions).Name : $"{typeof(TOptions).Name}.{key.Replace(ConfigurationPath.KeyDelimiter, ".", StringComparison.Ordinal)}";
            var reason = exception is FormatException
                ? fault
                : $"{fault} {HowToWrite(typeof(TOptions).GetProperties().FirstOrDefault(property => property.Name.Equals(key, StringComparison.OrdinalIgnoreCase))?.PropertyType)}";
            throw new OptionsValidationException(name, typeof(TOptions), [$"{setting} could not be read: {reason}{OriginOf(name, owner, path)}"]);
        }
    }

    private static string HowToWrite(Type? type) => type is { IsEnum: true }
        ? $"Write one of {string.Join(", ", Enum.GetNames(type))}."
        : "Write a time as '00:00:05', a switch as 'true' or 'false', and a number without its unit.";

    internal static string OriginOf(string name, string owner, string? section) => (name.Length, section) switch
    {
        (0, null) => string.Empty,
        (0, _) => $" It is set in section '{section}'.",
        (_, null) => $" It is set for {owner} '{name}'.",
        _ => $" It is set for {owner} '{name}' in section '{section}'.",
    };

    /// <summary>Checks options that were not registered, as a constructor does.</summary>
    /// <typeparam name="TOptions">The options.</typeparam>
    /// <param name="rules">Checks the options.</param>
    /// <param name="options">The options.</param>
    /// <param name="name">The name of what they belong to; empty for none.</param>
    /// <exception cref="OptionsValidationException">A setting breaks a rule. The message names it.</exception>
    public static void ThrowIfInvalid<TOptions>(IValidateOptions<TOptions> rules, TOptions options, string name = "")
        where TOptions : class
    {
        ArgumentNullException.ThrowIfNull(rules);
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(name);
        var result = new NamedRules<TOptions>(name, "the output buffer", rules).Check(options);
        if (result.Failed)
            throw new OptionsValidationException(name, typeof(TOptions), result.Failures);
    }
}

/// <summary>Reads what a binder leaves out in silence: a value in the place of a list, elements that are null, and settings that are null.</summary>
internal static class SectionReader
{
    /// <summary>Reads a list, to replace the one before. A value in its place counts as an element. Null when the section has no such list.</summary>
    /// <param name="section">The section.</param>
    /// <param name="key">The list's key.</param>
    /// <param name="read">Reads an element. It throws <see cref="FormatException"/> with the element's path in quotes when it can't.</param>
    public static List<T>? ReadList<T>(IConfiguration section, string key, Func<IConfigurationSection, T> read)
    {
        var list = section.GetSection(key);
        if (!list.Exists())
            return null;
        IEnumerable<IConfigurationSection> value = list.Value is { Length: > 0 } ? [list] : [];
        return [.. value.Concat(list.GetChildren()).Select(read)];
    }

    /// <summary>Finds the settings that stand inside a section. They have no keys when they are null or an empty object, which configuration does not tell apart. Null when the section has no such key.</summary>
    /// <exception cref="FormatException">A value stands in their place. It is no part of the error, because it may be a secret.</exception>
    public static IConfigurationSection? FindInner(IConfiguration section, string key)
    {
        var inner = section.GetChildren().FirstOrDefault(child => child.Key.Equals(key, StringComparison.OrdinalIgnoreCase));
        return inner?.Value is { Length: > 0 } ? throw new FormatException($"'{inner.Path}' is a value. Write an object with settings.") : inner;
    }
}

/// <summary>Checks the options of one name. A container calls the rules of all names for each name.</summary>
internal sealed class NamedRules<TOptions>(string name, string owner, IValidateOptions<TOptions> rules) : IValidateOptions<TOptions>
    where TOptions : class
{
    private readonly List<IConfiguration> _sections = [];

    public string Name => name;

    /// <summary>Adds a section that the options are read from. False when it was added before.</summary>
    public bool AddSection(IConfiguration section)
    {
        var path = PathOf(section);
        if (_sections.Exists(other => path is null ? ReferenceEquals(other, section) : path.Equals(PathOf(other), StringComparison.OrdinalIgnoreCase)))
            return false;
        _sections.Add(section);
        return true;
    }

    public ValidateOptionsResult Validate(string? name, TOptions options) => name == Name ? Check(options) : ValidateOptionsResult.Skip;

    public ValidateOptionsResult Check(TOptions options)
    {
        // Without a name, because generated rules put it in the place of the type.
        var result = rules.Validate(name: null, options);
        if (!result.Failed)
            return result;
        var origin = OptionsRules.OriginOf(name, owner, _sections.Select(PathOf).FirstOrDefault(static path => path is not null));
        return ValidateOptionsResult.Fail(result.Failures.Select(failure => Qualify(failure) + origin));
    }

    private static string? PathOf(IConfiguration section) => (section as IConfigurationSection)?.Path;

    // Rules write "Type.Member ...", "Member: ... Type.Member ..." for a standard attribute, and "Member: Member ..." for a rule in code.
    private static string Qualify(string failure)
    {
        const string separator = ": ";
        var start = $"{typeof(TOptions).Name}.";
        if (failure.StartsWith(start, StringComparison.Ordinal))
            return failure;
        var end = failure.IndexOf(separator, StringComparison.Ordinal);
        if (end < 0)
            return $"{typeof(TOptions).Name}{separator}{failure}";
        var rest = failure[(end + separator.Length)..];
        if (rest.IndexOf(start, StringComparison.Ordinal) is >= 0 and var at)
        {
            var member = rest[at..].Split(' ', 2)[0];
            return rest == $"The {member} field is required." ? $"{member} must be set and not be empty."
                : rest.StartsWith($"The field {member} ", StringComparison.Ordinal) ? rest["The field ".Length..]
                : at == 0 ? rest
                : $"{member}{separator}{rest}";
        }

        return start + (rest.StartsWith(failure[..end], StringComparison.Ordinal) ? rest : failure);
    }
}

/// <summary>Limits an option to times between two others, both included. Unlike <see cref="RangeAttribute"/> with a type, it is safe to trim.</summary>
/// <param name="minimum">The least, as in <c>00:00:01</c>.</param>
/// <param name="maximum">The most.</param>
[AttributeUsage(AttributeTargets.Property)]
internal sealed class TimeSpanRangeAttribute(string minimum, string maximum) : ValidationAttribute
{
    /// <summary>The least.</summary>
    public string Minimum { get; } = minimum;

    /// <summary>The most.</summary>
    public string Maximum { get; } = maximum;

    /// <inheritdoc/>
    public override bool IsValid(object? value) =>
        value is null || (value is TimeSpan time && time >= Parse(Minimum) && time <= Parse(Maximum));

    /// <inheritdoc/>
    public override string FormatErrorMessage(string name) => $"{name} must be between {Minimum} and {Maximum}.";

    /// <inheritdoc/>
    protected override ValidationResult? IsValid(object? value, ValidationContext validationContext)
    {
        ArgumentNullException.ThrowIfNull(validationContext);
        return IsValid(value) ? ValidationResult.Success : new ValidationResult(FormatErrorMessage($"{validationContext.DisplayName} ({value})"));
    }

    private static TimeSpan Parse(string text) => TimeSpan.Parse(text, CultureInfo.InvariantCulture);
}
