using System.Diagnostics;

namespace BatchKit.Diagnostics;

/// <summary>The activity source of sends.</summary>
internal static class BatchKitTracing
{
    public const string SourceName = "BatchKit";

    private static readonly ActivitySource Source = new(SourceName);

    public static bool IsListening => Source.HasListeners();

    /// <summary>Starts the span of one send, linked to its messages' writers.</summary>
    /// <remarks>Names follow the messaging semantic conventions (OpenTelemetry, semconv 1.28, messaging spans).</remarks>
    public static Activity? StartSend(string route, int messages, IEnumerable<ActivityLink> writers)
    {
        var activity = Source.StartActivity(ActivityKind.Producer, default(ActivityContext), tags: null, links: writers, name: $"send {route}");
        if (activity is not { IsAllDataRequested: true })
            return activity;
        activity.SetTag("messaging.system", "batchkit");
        activity.SetTag("messaging.operation.type", "send");
        activity.SetTag("messaging.operation.name", "send");
        activity.SetTag("messaging.destination.name", route);
        activity.SetTag("messaging.batch.message_count", messages);
        return activity;
    }
}
