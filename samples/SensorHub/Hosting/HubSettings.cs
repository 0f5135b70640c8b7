using System.CommandLine;
using BatchKit.Mqtt;
using static Shared.SettingValue;

namespace SensorHub.Hosting;

/// <summary>All settings, in the order of the help.</summary>
internal static class HubSettings
{
    private static readonly string[] Schemes = ["mqtt", "mqtts", "ws", "wss"];

    public static IReadOnlyList<Setting<HubOptions>> All { get; } =
    [
        new("server", "mqtt://host:port", "The broker; mqtt://localhost:1883 by default. Also mqtts:// (TLS), ws://, wss://.",
            (options, value) => options.Server = Address(value), IsSecret: true),
        new("user", "<name>", "The user name; none by default.", (options, value) => options.UserName = Text(value)),
        new("password", "<password>", "The password. Set it in the environment to keep it off the command line.", (options, value) => options.Password = Text(value), IsSecret: true),
        new("client-id", "<id>", "The start of the client ids of both connections; sensorhub-<machine> by default. Hubs of one broker need different ones.",
            (options, value) => options.ClientId = Text(value)),
        new("version", "5|3.1.1", "The protocol's version; 5 by default. 3.1.1 has no user properties.", (options, value) => options.Version = Version(value)),
        new("qos", "0|1", "Whether the broker acknowledges; 1 by default.", (options, value) => options.QualityOfService = (MqttQualityOfService)Number(value, 0, 1)),
        new("rate", "<number>", "Changes a second; 20000 by default.", (options, value) => options.Rate = Number(value, 1, 200_000)),
        new("topics", "<number>", "The number of properties that change, each with a topic of its own; 4000 by default.", (options, value) => options.Topics = Number(value, 1, 100_000)),
        new("seconds", "<number>", "Stops writing and ends after this many seconds; runs until Ctrl-C by default.",
            (options, value) => options.Duration = TimeSpan.FromSeconds(Number(value, 1, 86_400))),
        new("wait", "<number>", "Ends with exit code 1 when the broker is not available after this many seconds; waits for ever by default.",
            (options, value) => options.Patience = TimeSpan.FromSeconds(Number(value, 1, 86_400))),
        new("plain", "", "Prints one line a second instead of the live view, as it also does when the output is not a terminal.", (options, value) => options.IsPlain = Switch(value)),
        new("baseline", "", "For comparison: publishes one change at a time and waits for each.", (options, value) => options.IsBaseline = Switch(value)),
    ];

    /// <summary>Reads the options from the command line, then from the environment.</summary>
    /// <exception cref="UsageException">An argument is unknown, or a value is invalid.</exception>
    public static HubOptions Read(IReadOnlyList<string> arguments, Func<string, string?> environment)
    {
        var options = new HubOptions();
        var given = SettingsReader.Parse(new Command("sensor-hub"), All, arguments);
        SettingsReader.Apply(All, options, given, setting => (setting.VariableOf("SENSORHUB"), environment(setting.VariableOf("SENSORHUB"))));
        return options;
    }

    private static MqttVersion Version(string value) => value switch
    {
        "5" or "5.0" => MqttVersion.V5,
        "3.1.1" => MqttVersion.V311,
        _ => throw new FormatException("takes 5 or 3.1.1"),
    };

    private static Uri Address(string value) =>
        Uri.TryCreate(value, UriKind.Absolute, out var uri) && Schemes.Contains(uri.Scheme, StringComparer.Ordinal) && uri.Host.Length > 0 && uri.UserInfo.Length == 0
            ? uri
            : throw new FormatException("takes an address such as mqtt://localhost:1883, mqtts://, ws:// or wss://, without user name and password");
}
