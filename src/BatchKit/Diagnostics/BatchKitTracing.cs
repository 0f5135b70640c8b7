using System.Diagnostics;

namespace BatchKit.Diagnostics;

/// <summary>The activity source of sends and of deliveries of received frames.</summary>
internal static class BatchKitTracing
{
    public const string SourceName = "BatchKit";

    private static readonly ActivitySource Source = new(SourceName);

    public static bool IsListening => Source.HasListeners();

    /// <summary>The current span where it is recorded; else the default. A receiver's span continues it.</summary>
    public static ActivityContext RecordedContext =>
        Activity.Current is { Recorded: true, IdFormat: ActivityIdFormat.W3C } activity ? activity.Context : default;

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

    /// <summary>Starts the span of delivering one received frame, as a child of the send's span.</summary>
    /// <param name="system">The broker's name in the messaging semantic conventions.</param>
    /// <param name="queue">Where the frame came from; null when no one says.</param>
    /// <param name="messages">The messages that are new.</param>
    /// <param name="trace">The span of the send; the default when the frame has none.</param>
    public static Activity? StartDelivery(string system, string? queue, int messages, ActivityContext trace)
    {
        var activity = Source.StartActivity(queue is null ? "process" : $"process {queue}", ActivityKind.Consumer, trace);
        if (activity is not { IsAllDataRequested: true })
            return activity;
        activity.SetTag("messaging.system", system);
        activity.SetTag("messaging.operation.type", "process");
        activity.SetTag("messaging.operation.name", "process");
        if (queue is not null)
            activity.SetTag("messaging.destination.name", queue);
        activity.SetTag("messaging.batch.message_count", messages);
        return activity;
    }
}
