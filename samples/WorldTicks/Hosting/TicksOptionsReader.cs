using System.CommandLine;

namespace WorldTicks.Hosting;

/// <summary>Reads the options from the command line, then from the environment; what neither sets has its default.</summary>
internal static class TicksOptionsReader
{
    /// <exception cref="UsageException">A command or an argument is unknown, or a value is invalid.</exception>
    public static TicksOptions Read(IReadOnlyList<string> arguments, Func<string, string?> environment)
    {
        var (world, worker) = (new Command("world"), new Command("worker"));
        var root = new Command("world-ticks") { world, worker };
        // Without an action the parser demands one of the two commands.
        root.SetAction(_ => 0);
        var given = SettingsReader.Parse(root, TicksSettings.All, arguments);
        var command = given.CommandResult.Command;
        var options = new TicksOptions { Role = command == world ? TicksRole.World : command == worker ? TicksRole.Worker : TicksRole.Both };
        var settings = TicksSettings.For(options.Role);
        if (TicksSettings.All.Except(settings).FirstOrDefault(setting => given.GetResult(setting.Argument) is not null) is { } misplaced)
            throw new UsageException($"{misplaced.Argument} is not for a {command.Name}.");
        SettingsReader.Apply(settings, options, given, setting => (setting.VariableOf("WORLDTICKS"), environment(setting.VariableOf("WORLDTICKS"))));
        return options;
    }
}
