using System.CommandLine;

namespace WorldTicks.Hosting;

/// <summary>Reads the options from the command line, then from the environment; what neither sets has its default.</summary>
internal static class TicksOptionsReader
{
    // A value may start with @, which otherwise means a file with arguments.
    private static readonly ParserConfiguration WithoutFiles = new() { ResponseFileTokenReplacer = null };

    /// <exception cref="UsageException">A command or an argument is unknown, or a value is invalid.</exception>
    public static TicksOptions Read(IReadOnlyList<string> arguments, Func<string, string?> environment)
    {
        var (role, given) = ReadArguments(arguments);
        var options = new TicksOptions { Role = role };
        foreach (var setting in TicksSettings.All.Where(setting => setting.IsFor(role)))
        {
            if (given.TryGetValue(setting, out var argument))
                Apply(setting, options, setting.Argument, argument);
            else if (environment(setting.EnvironmentVariable) is { } variable)
                Apply(setting, options, setting.EnvironmentVariable, variable);
        }

        return options;
    }

    private static (TicksRole Role, Dictionary<TicksSetting, string> Given) ReadArguments(IReadOnlyList<string> arguments)
    {
        var (world, worker) = (new Command("world"), new Command("worker"));
        var root = new Command("world-ticks") { world, worker };
        // Without an action the parser demands one of the two commands.
        root.SetAction(_ => 0);
        foreach (var setting in TicksSettings.All)
            root.Add(new Option<string>(setting.Argument) { Recursive = true, Arity = setting.IsSwitch ? ArgumentArity.ZeroOrOne : ArgumentArity.ExactlyOne });
        var parsed = root.Parse([.. arguments], WithoutFiles);
        if (parsed.Errors.Count > 0)
            throw new UsageException(parsed.Errors[0].Message);
        var role = parsed.CommandResult.Command == world ? TicksRole.World : parsed.CommandResult.Command == worker ? TicksRole.Worker : TicksRole.Both;
        var given = TicksSettings.All.Where(setting => parsed.GetResult(setting.Argument) is not null).ToDictionary(
            setting => setting, setting => parsed.GetValue<string>(setting.Argument) ?? SettingValue.On);
        return given.Keys.FirstOrDefault(setting => !setting.IsFor(role)) is { } misplaced
            ? throw new UsageException($"{misplaced.Argument} is not for a {role.ToString().ToLowerInvariant()}.")
            : (role, given);
    }

    private static void Apply(TicksSetting setting, TicksOptions options, string source, string value)
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
