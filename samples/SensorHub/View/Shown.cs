using BatchKit.Mqtt;
using SensorHub.Hosting;

namespace SensorHub.View;

/// <summary>Formats figures in the same way for every view.</summary>
internal static class Shown
{
    public static string Count(double number) => number.ToString("N0");

    public static string Ratio(double? number) => number is { } value ? value.ToString("N1") : "-";

    public static string Time(TimeSpan? time) => time switch
    {
        null => "-",
        { TotalSeconds: >= 1 } value => $"{value.TotalSeconds:N1} s",
        { } value => $"{value.TotalMilliseconds:N1} ms",
    };

    public static string Megabytes(long bytes) => $"{bytes / (1024.0 * 1024):N1} MB";

    public static string Clock(TimeSpan time) => time.ToString(@"hh\:mm\:ss");

    /// <summary>Cuts a text to the width of a line.</summary>
    public static string Cut(string text, int width) => text.Length <= width ? text : text[..Math.Max(0, width - 1)] + "…";

    /// <summary>Describes the settings of this run in one line.</summary>
    public static string Task(HubOptions options)
    {
        var version = options.Version == MqttVersion.V5 ? "5" : "3.1.1";
        var how = options.IsBaseline ? "one await at a time" : "in buffering scopes";
        return $"{Count(options.Rate)} changes/s to {Count(options.Topics)} topics, {how}, MQTT {version}, QoS {(int)options.QualityOfService}, {Address(options.Server)}";
    }

    private static string Address(Uri server) => server.IsDefaultPort ? $"{server.Scheme}://{server.Host}" : $"{server.Scheme}://{server.Authority}";
}
