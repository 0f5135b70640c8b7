using System.CommandLine;

namespace MudServer.Hosting;

/// <summary>Reads the options from the command line, then from the environment, then from the settings file; what none of them sets has its default.</summary>
internal static class MudOptionsReader
{
    // A value may start with @, which otherwise means a file with arguments.
    private static readonly ParserConfiguration WithoutFiles = new() { ResponseFileTokenReplacer = null };

    /// <exception cref="MudUsageException">An argument is unknown, a value is invalid, or two settings contradict each other.</exception>
    public static MudOptions Read(IReadOnlyList<string> arguments, Func<string, string?> environment, IConfiguration file)
    {
        var given = ReadArguments(arguments);
        var options = new MudOptions();
        foreach (var setting in MudSettings.All)
        {
            if (given.TryGetValue(setting.Name, out var argument))
                Apply(setting, options, setting.Argument, argument);
            else if (environment(setting.EnvironmentVariable) is { } variable)
                Apply(setting, options, setting.EnvironmentVariable, variable);
            else if (file[setting.FileKey] is { } entry)
                Apply(setting, options, $"{setting.FileKey} in appsettings.json", entry);
        }

        return options.FindContradiction() is { } contradiction ? throw new MudUsageException(contradiction) : options;
    }

    private static Dictionary<string, string> ReadArguments(IReadOnlyList<string> arguments)
    {
        var command = new Command("mud-server");
        foreach (var setting in MudSettings.All)
            command.Add(new Option<string>(setting.Argument));
        var given = command.Parse([.. arguments], WithoutFiles);
        if (given.Errors.Count > 0)
            throw new MudUsageException(given.Errors[0].Message);
        return MudSettings.All
            .Where(setting => given.GetResult(setting.Argument) is not null)
            .ToDictionary(setting => setting.Name, setting => given.GetValue<string>(setting.Argument)!, StringComparer.Ordinal);
    }

    private static void Apply(MudSetting setting, MudOptions options, string source, string value)
    {
        try
        {
            setting.Apply(options, value);
        }
        catch (FormatException exception)
        {
            // The value may contain a password, which must not be shown.
            var shown = setting.Name.StartsWith("rabbitmq", StringComparison.Ordinal) ? "that value" : $"\"{value}\"";
            throw new MudUsageException($"{source} {exception.Message}, and {shown} is not.");
        }
    }
}
