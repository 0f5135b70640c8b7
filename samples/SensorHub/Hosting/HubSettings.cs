using System.Globalization;
using BatchKit.Mqtt;

namespace SensorHub.Hosting;

/// <summary>All settings, in the order of the help.</summary>
internal static class HubSettings
{
    private const string On = "on";

    private static readonly string[] Schemes = ["mqtt", "mqtts", "ws", "wss"];

    public static IReadOnlyList<HubSetting> All { get; } =
    [
        new("server", "mqtt://host:port", "The broker; mqtt://localhost:1883 by default. Also mqtts:// (TLS), ws://, wss://.",
            (options, value) => options.Server = Address(value)),
        new("user", "<name>", "The user name; none by default.", (options, value) => options.UserName = Text(value)),
        new("password", "<password>", "The password; better in the environment.", (options, value) => options.Password = Text(value)),
        new("client-id", "<id>", "Names the two connections; sensorhub-<machine> by default. No two hubs of one broker may share it.",
            (options, value) => options.ClientId = Text(value)),
        new("version", "5|3.1.1", "The protocol's version; 5 by default. 3.1.1 has no user properties.", (options, value) => options.Version = Version(value)),
        new("qos", "0|1", "Whether the broker acknowledges; 1 by default.", (options, value) => options.QualityOfService = (MqttQualityOfService)Number(value, 0, 1)),
        new("rate", "<number>", "Changes a second; 20000 by default.", (options, value) => options.Rate = Number(value, 1, 200_000)),
        new("topics", "<number>", "Properties that change, each with its topic; 4000 by default.", (options, value) => options.Topics = Number(value, 1, 100_000)),
        new("seconds", "<number>", "Ends by itself after so many seconds of writing.",
            (options, value) => options.Duration = TimeSpan.FromSeconds(Number(value, 1, 86_400))),
        new("wait", "<number>", "Gives up, with exit code 1, when the broker is not there after so many seconds; waits for ever by default.",
            (options, value) => options.Patience = TimeSpan.FromSeconds(Number(value, 1, 86_400))),
        new("plain", "", "One line a second instead of the live view; so too when the output is no terminal.", (options, value) => options.IsPlain = Switch(value)),
        new("baseline", "", "For comparison: publishes one change at a time and waits for each.", (options, value) => options.IsBaseline = Switch(value)),
    ];

    /// <summary>What a switch on the command line stands for.</summary>
    public static string SwitchedOn => On;

    private static bool Switch(string value) => value switch
    {
        On => true,
        "off" => false,
        _ => throw new FormatException("takes on or off"),
    };

    private static int Number(string value, int least, int most) =>
        int.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out var number) && number >= least && number <= most
            ? number
            : throw new FormatException($"takes a number from {least} to {most}");

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

    private static string Text(string value) =>
        string.IsNullOrWhiteSpace(value) ? throw new FormatException("takes a text that is not empty") : value;
}
