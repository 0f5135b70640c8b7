using System.CommandLine;

namespace Shared;

/// <summary>One setting of the command line and the environment, with its text for the help.</summary>
/// <param name="Name">Its name without the two hyphens, such as <c>client-id</c>.</param>
/// <param name="Values">The values that it takes, for the help; empty for a switch.</param>
/// <param name="Summary">What it does, for the help.</param>
/// <param name="Apply">Sets the option from a text; throws a <see cref="FormatException"/> that names the allowed values. Its message is shown between the name and the value.</param>
/// <param name="IsSecret">True when the value may contain a password and must not be shown.</param>
internal sealed record Setting<TOptions>(string Name, string Values, string Summary, Action<TOptions, string> Apply, bool IsSecret = false)
{
    public string Argument => $"--{Name}";

    public bool IsSwitch => Values.Length == 0;

    /// <summary>The environment variable of a program, such as <c>MUD_HTTP_PORT</c>.</summary>
    public string VariableOf(string program) => $"{program}_{Name.Replace('-', '_').ToUpperInvariant()}";
}

/// <summary>Reads settings from the command line first, then from elsewhere; what none of them sets has its default.</summary>
internal static class SettingsReader
{
    // A value may start with @, which otherwise means a file with arguments.
    private static readonly ParserConfiguration WithoutFiles = new() { ResponseFileTokenReplacer = null };

    /// <summary>Reads the command line.</summary>
    /// <exception cref="UsageException">An argument is unknown, or has no value.</exception>
    public static ParseResult Parse<TOptions>(Command command, IEnumerable<Setting<TOptions>> settings, IReadOnlyList<string> arguments)
    {
        foreach (var setting in settings)
            command.Add(new Option<string>(setting.Argument) { Recursive = true, Arity = setting.IsSwitch ? ArgumentArity.ZeroOrOne : ArgumentArity.ExactlyOne });
        var given = command.Parse([.. arguments], WithoutFiles);
        return given.Errors.Count > 0 ? throw new UsageException(given.Errors[0].Message) : given;
    }

    /// <summary>Sets the options.</summary>
    /// <param name="settings">The settings that count.</param>
    /// <param name="options">The options.</param>
    /// <param name="given">The command line.</param>
    /// <param name="others">What else may have a setting, each after the one before: they return its name there, and its value or null.</param>
    /// <exception cref="UsageException">A value is invalid.</exception>
    public static void Apply<TOptions>(
        IEnumerable<Setting<TOptions>> settings, TOptions options, ParseResult given, params Func<Setting<TOptions>, (string Source, string? Value)>[] others)
    {
        foreach (var setting in settings)
        {
            var argument = given.GetResult(setting.Argument) is null ? null : given.GetValue<string>(setting.Argument) ?? SettingValue.On;
            (string Source, string? Value)[] places = [(setting.Argument, argument), .. others.Select(other => other(setting))];
            if (Array.Find(places, static place => place.Value is not null) is (var source, { } value))
                Apply(setting, options, source, value);
        }
    }

    private static void Apply<TOptions>(Setting<TOptions> setting, TOptions options, string source, string value)
    {
        try
        {
            setting.Apply(options, value);
        }
        catch (FormatException exception)
        {
            throw new UsageException($"{source} {exception.Message}, and {(setting.IsSecret ? "that value" : $"\"{value}\"")} is not.");
        }
    }
}
