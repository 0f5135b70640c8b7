using System.CommandLine;

namespace MudServer.Hosting;

/// <summary>Reads the options from the command line, then from the environment, then from the settings file; what none of them sets has its default.</summary>
internal static class MudOptionsReader
{
    /// <exception cref="UsageException">An argument is unknown, a value is invalid, or two settings contradict each other.</exception>
    public static MudOptions Read(IReadOnlyList<string> arguments, Func<string, string?> environment, IConfiguration file)
    {
        var options = new MudOptions();
        var given = SettingsReader.Parse(new Command("mud-server"), MudSettings.All, arguments);
        SettingsReader.Apply(MudSettings.All, options, given, setting => (setting.VariableOf("MUD"), environment(setting.VariableOf("MUD"))), setting =>
        {
            var key = setting.Name.Replace("-", string.Empty, StringComparison.Ordinal);
            return ($"{key} in appsettings.json", file[key]);
        });
        return options.FindContradiction() is { } contradiction ? throw new UsageException(contradiction) : options;
    }
}
