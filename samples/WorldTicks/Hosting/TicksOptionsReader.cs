namespace WorldTicks.Hosting;

/// <summary>Reads the options: what the command line does not say the environment does, then the defaults.</summary>
internal static class TicksOptionsReader
{
    /// <exception cref="TicksUsageException">A command or an argument is unknown, or a value is bad.</exception>
    public static TicksOptions Read(IReadOnlyList<string> arguments, Func<string, string?> environment)
    {
        var options = new TicksOptions { Role = ReadRole(arguments.Count > 0 ? arguments[0] : null) };
        var given = ReadArguments(arguments.Skip(options.Role == TicksRole.Both ? 0 : 1).ToArray(), options.Role);
        foreach (var setting in TicksSettings.All.Where(setting => (setting.Role & options.Role) != TicksRole.None))
        {
            if (given.TryGetValue(setting.Name, out var argument))
                Apply(setting, options, setting.Argument, argument);
            else if (environment(setting.EnvironmentVariable) is { } variable)
                Apply(setting, options, setting.EnvironmentVariable, variable);
        }

        return options;
    }

    private static TicksRole ReadRole(string? word) => word switch
    {
        "world" => TicksRole.World,
        "worker" => TicksRole.Worker,
        null => TicksRole.Both,
        _ when word.StartsWith("--", StringComparison.Ordinal) => TicksRole.Both,
        _ => throw new TicksUsageException($"\"{word}\" is not a command: it is world, worker, or none for both in one process."),
    };

    private static Dictionary<string, string> ReadArguments(string[] arguments, TicksRole role)
    {
        var given = new Dictionary<string, string>(StringComparer.Ordinal);
        for (var index = 0; index < arguments.Length; index++)
        {
            var argument = arguments[index];
            var equals = argument.IndexOf('=', StringComparison.Ordinal);
            var word = equals < 0 ? argument : argument[..equals];
            var setting = Find(word, role);
            string value;
            if (equals >= 0)
                value = argument[(equals + 1)..];
            else if (setting.IsSwitch)
                value = TicksSettings.SwitchedOn;
            else if (index + 1 < arguments.Length && !arguments[index + 1].StartsWith("--", StringComparison.Ordinal))
                value = arguments[++index];
            else
                throw new TicksUsageException($"{word} needs a value: {word} {setting.Values}");
            if (!given.TryAdd(setting.Name, value))
                throw new TicksUsageException($"{word} is given twice.");
        }

        return given;
    }

    private static TicksSetting Find(string word, TicksRole role)
    {
        var setting = TicksSettings.All.FirstOrDefault(setting => setting.Argument == word)
            ?? throw new TicksUsageException($"\"{word}\" is not an argument that the program knows.");
        return (setting.Role & role) != TicksRole.None ? setting : throw new TicksUsageException($"{word} is not for a {role.ToString().ToLowerInvariant()}.");
    }

    private static void Apply(TicksSetting setting, TicksOptions options, string source, string value)
    {
        try
        {
            setting.Apply(options, value);
        }
        catch (FormatException exception)
        {
            throw new TicksUsageException($"{source} {exception.Message}, and {(setting.IsSecret ? "that value" : $"\"{value}\"")} is not.");
        }
    }
}
