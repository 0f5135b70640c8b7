using System.CommandLine;

namespace SensorHub.Hosting;

/// <summary>Reads the options from the command line, then from the environment; what neither sets has its default.</summary>
internal static class HubOptionsReader
{
    // A value may start with @, which otherwise means a file with arguments.
    private static readonly ParserConfiguration WithoutFiles = new() { ResponseFileTokenReplacer = null };

    /// <exception cref="UsageException">An argument is unknown, or a value is invalid.</exception>
    public static HubOptions Read(IReadOnlyList<string> arguments, Func<string, string?> environment)
    {
        var given = ReadArguments(arguments);
        var options = new HubOptions();
        foreach (var setting in HubSettings.All)
        {
            if (given.TryGetValue(setting.Name, out var argument))
                Apply(setting, options, setting.Argument, argument);
            else if (environment(setting.EnvironmentVariable) is { } variable)
                Apply(setting, options, setting.EnvironmentVariable, variable);
        }

        return options;
    }

    private static Dictionary<string, string> ReadArguments(IReadOnlyList<string> arguments)
    {
        var command = new Command("sensor-hub");
        foreach (var setting in HubSettings.All)
            command.Add(new Option<string>(setting.Argument) { Arity = setting.IsSwitch ? ArgumentArity.ZeroOrOne : ArgumentArity.ExactlyOne });
        var given = command.Parse([.. arguments], WithoutFiles);
        if (given.Errors.Count > 0)
            throw new UsageException(given.Errors[0].Message);
        return HubSettings.All
            .Where(setting => given.GetResult(setting.Argument) is not null)
            .ToDictionary(setting => setting.Name, setting => given.GetValue<string>(setting.Argument) ?? SettingValue.On, StringComparer.Ordinal);
    }

    private static void Apply(HubSetting setting, HubOptions options, string source, string value)
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
