using BatchKit.Mqtt;
using SensorHub.Hosting;
using SensorHub.Measuring;

namespace SensorHub.View;

/// <summary>How figures are written, the same in every view.</summary>
internal static class Shown
{
    public static string Count(double number) => number.ToString("N0");

    public static string Ratio(double? number) => number is { } value ? value.ToString("N1") : "-";

    public static string Milliseconds(TimeSpan? time) => time is { } value ? $"{value.TotalMilliseconds:N1} ms" : "-";

    public static string Megabytes(long bytes) => $"{bytes / (1024.0 * 1024):N1} MB";

    public static string Clock(TimeSpan time) => time.ToString(@"hh\:mm\:ss");

    /// <summary>What the hub was asked to do.</summary>
    public static string Task(HubOptions options)
    {
        var version = options.Version == MqttVersion.V5 ? "5" : "3.1.1";
        var how = options.IsBaseline ? "one await at a time" : "in buffering scopes";
        return $"{Count(options.Rate)} changes/s to {Count(options.Topics)} topics, {how}, MQTT {version}, QoS {(int)options.QualityOfService}, {Address(options.Server)}";
    }

    /// <summary>Both connections in a few words.</summary>
    public static string Connection(HubConnections connections) => (connections.PublisherFault, connections.SubscriberFault) switch
    {
        (null, null) => "connected",
        ({ } fault, null) => $"publisher: {fault}",
        (null, { } fault) => $"subscriber: {fault}",
        (_, { } fault) => fault,
    };

    private static string Address(Uri server) => server.IsDefaultPort ? $"{server.Scheme}://{server.Host}" : $"{server.Scheme}://{server.Authority}";
}
