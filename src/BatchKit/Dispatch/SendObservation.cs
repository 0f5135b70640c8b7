using System.Diagnostics;
using BatchKit.Batches;
using BatchKit.Diagnostics;

namespace BatchKit.Dispatch;

/// <summary>Measures and traces one send, from its start until each of its batches is decided; created only while someone listens. Throws nothing that a listener throws.</summary>
/// <remarks>It ends before the last of these batches is settled, so that a caller that awaits its output finds the send measured and its span ended.</remarks>
internal sealed class SendObservation : IDisposable
{
    // Backends keep at most 128 links per span.
    private const int MaxLinks = 128;

    private readonly BufferSettings _settings;
    private readonly string _route;
    private readonly int _messages;
    private readonly long _startedAt;
    private readonly Activity? _activity;
    private string? _errorType;
    private bool _isEnded;

    public SendObservation(BufferSettings settings, string route, OutgoingSend send)
    {
        _settings = settings;
        _route = route;
        for (var index = 0; index < send.Count; index++)
            _messages += send[index].Count;
        _activity = BatchKitTracing.IsListening ? Start(send) : null;
        _startedAt = settings.Clock.Now;
    }

    public void Fail(Exception failure)
    {
        if (_isEnded)
            return;
        _errorType = failure.GetType().FullName;
        _activity?.SetTag("error.type", _errorType);
        _activity?.SetStatus(ActivityStatusCode.Error, FailureText.MessageOf(failure));
    }

    /// <summary>Ends it as a success. Earlier failures count as failed sends, and are not the operation's error.</summary>
    public void Succeed()
    {
        if (_errorType is not null)
        {
            _errorType = null;
            _activity?.SetTag("error.type", null);
            _activity?.SetStatus(ActivityStatusCode.Unset);
        }

        Dispose();
    }

    public void Dispose()
    {
        if (_isEnded)
            return;
        _isEnded = true;
        try
        {
            _settings.Metrics.RecordSend(_route, _messages, _settings.Clock.ElapsedSince(_startedAt), _errorType);
        }
        catch (Exception fault)
        {
            _settings.Logger.Faults.Add(fault);
        }

        try
        {
            _activity?.Dispose();
        }
        catch (Exception fault)
        {
            _settings.Logger.Faults.Add(fault);
        }
    }

    private Activity? Start(OutgoingSend send)
    {
        try
        {
            return BatchKitTracing.StartSend(_route, _messages, Links(send));
        }
        catch (Exception fault)
        {
            _settings.Logger.Faults.Add(fault);
            return null;
        }
    }

    private static List<ActivityLink> Links(OutgoingSend send)
    {
        var links = new List<ActivityLink>();
        for (var index = 0; index < send.Count && links.Count < MaxLinks; index++)
        {
            foreach (var writer in send[index].Content.Writers.All.Take(MaxLinks - links.Count))
                links.Add(new ActivityLink(writer));
        }

        return links;
    }
}
