using System.Diagnostics;

namespace BatchKit.Diagnostics;

/// <summary>The activity source of sends and of deliveries of received messages. Compiled into adapters too: listeners choose sources by their name.</summary>
internal static class BatchKitTracing
{
    public const string SourceName = "BatchKit";

    // As many as OpenTelemetry keeps per span by default.
    private const int MaxLinks = 128;

    private static readonly ActivitySource Source = new(SourceName);

    public static bool IsListening => Source.HasListeners();

    /// <summary>The context of the current span when that is recorded; otherwise the default. A receiver's span continues it.</summary>
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

    /// <summary>Starts the span of delivering received messages: a child of the span that sent them; where several spans did, linked to each.</summary>
    /// <param name="system">The broker's name in the messaging semantic conventions.</param>
    /// <param name="queue">Where the messages came from; null when unknown.</param>
    /// <param name="messages">The messages that are new.</param>
    /// <param name="traces">The spans of the sends; the default for a message that has none.</param>
    public static Activity? StartDelivery(string system, string? queue, int messages, IEnumerable<ActivityContext> traces)
    {
        ActivityContext[] senders = [.. traces.Where(static trace => trace != default).Distinct().Take(MaxLinks)];
        var links = senders.Length > 1 ? senders.Select(static trace => new ActivityLink(trace)) : null;
        var activity = Source.StartActivity(ActivityKind.Consumer, senders.Length == 1 ? senders[0] : default, tags: null, links, name: queue is null ? "process" : $"process {queue}");
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

/// <summary>The span of delivering received messages, current while it is not disposed. Throws nothing that a listener throws.</summary>
internal sealed class DeliverySpan : IDisposable
{
    private readonly Activity? _activity;
    private readonly ObserverFaults _faults;

    private DeliverySpan(Activity? activity, ObserverFaults faults) => (_activity, _faults) = (activity, faults);

    /// <summary>The error that the delivery ended with; null for none.</summary>
    public string? ErrorType { get; set; }

    /// <summary>Records that the delivery ended with this error.</summary>
    public void Fail(Exception exception) => ErrorType = exception.GetType().FullName;

    /// <summary>Starts the span that <see cref="BatchKitTracing.StartDelivery"/> describes; null when a listener throws. Check <see cref="BatchKitTracing.IsListening"/> first, because the traces cost memory.</summary>
    public static DeliverySpan? Start(string system, string? queue, int messages, IEnumerable<ActivityContext> traces, ObserverFaults faults)
    {
        try
        {
            return new DeliverySpan(BatchKitTracing.StartDelivery(system, queue, messages, traces), faults);
        }
        catch (Exception fault)
        {
            faults.Add(fault);
            return null;
        }
    }

    public void Dispose()
    {
        try
        {
            if (ErrorType is not null)
                _activity?.SetTag("error.type", ErrorType).SetStatus(ActivityStatusCode.Error);
            _activity?.Dispose();
        }
        catch (Exception fault)
        {
            _faults.Add(fault);
        }
    }
}
