namespace SensorHub.Hosting;

/// <summary>Reads the options: what the command line does not say the environment does, then the defaults.</summary>
internal static class HubOptionsReader
{
    /// <exception cref="HubUsageException">An argument is unknown, or a value is bad.</exception>
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
        var given = new Dictionary<string, string>(StringComparer.Ordinal);
        for (var index = 0; index < arguments.Count; index++)
        {
            var argument = arguments[index];
            var equals = argument.IndexOf('=', StringComparison.Ordinal);
            var word = equals < 0 ? argument : argument[..equals];
            var setting = HubSettings.All.FirstOrDefault(setting => setting.Argument == word)
                ?? throw new HubUsageException($"\"{word}\" is not an argument that the hub knows.");
            string value;
            if (equals >= 0)
                value = argument[(equals + 1)..];
            else if (setting.IsSwitch)
                value = HubSettings.SwitchedOn;
            else if (index + 1 < arguments.Count && !arguments[index + 1].StartsWith("--", StringComparison.Ordinal))
                value = arguments[++index];
            else
                throw new HubUsageException($"{word} needs a value: {word} {setting.Values}");
            if (!given.TryAdd(setting.Name, value))
                throw new HubUsageException($"{word} is given twice.");
        }

        return given;
    }

    private static void Apply(HubSetting setting, HubOptions options, string source, string value)
    {
        try
        {
            setting.Apply(options, value);
        }
        catch (FormatException exception)
        {
            throw new HubUsageException($"{source} {exception.Message}, and {(setting.IsSecret ? "that value" : $"\"{value}\"")} is not.");
        }
    }
}
