using System.Diagnostics;
using BatchKit.Diagnostics;

namespace BatchKit.Dispatch;

/// <summary>Measures and traces one send, from its start until its batches are settled; made only while somebody listens.</summary>
internal sealed class SendObservation : IDisposable
{
    private readonly DispatchSettings _settings;
    private readonly string _route;
    private readonly int _messages;
    private readonly long _startedAt;
    private readonly Activity? _activity;
    private string? _errorType;

    public SendObservation(DispatchSettings settings, string route, OutgoingSend send)
    {
        _settings = settings;
        _route = route;
        for (var index = 0; index < send.Count; index++)
            _messages += send[index].Count;
        _activity = BatchKitTracing.IsListening ? BatchKitTracing.StartSend(route, _messages, Links(send)) : null;
        _startedAt = settings.TimeProvider.GetTimestamp();
    }

    public void Fail(Exception failure)
    {
        _errorType = failure.GetType().FullName;
        _activity?.SetTag("error.type", _errorType);
        _activity?.SetStatus(ActivityStatusCode.Error, failure.Message);
    }

    /// <summary>It arrived in the end: what failed on the way is counted as failed sends, and is not the operation's error.</summary>
    public void Succeed()
    {
        if (_errorType is null)
            return;
        _errorType = null;
        _activity?.SetTag("error.type", null);
        _activity?.SetStatus(ActivityStatusCode.Unset);
    }

    public void Dispose()
    {
        _settings.Metrics.RecordSend(_route, _messages, _settings.TimeProvider.GetElapsedTime(_startedAt), _errorType);
        _activity?.Dispose();
    }

    // Backends cut at 128 links a span.
    private static List<ActivityLink> Links(OutgoingSend send)
    {
        const int maxLinks = 128;
        var links = new List<ActivityLink>();
        for (var index = 0; index < send.Count && links.Count < maxLinks; index++)
        {
            foreach (var writer in send[index].Content.Writers.All.Take(maxLinks - links.Count))
                links.Add(new ActivityLink(writer));
        }

        return links;
    }
}
