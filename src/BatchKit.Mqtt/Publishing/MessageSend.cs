using System.Threading.Tasks.Sources;

namespace BatchKit.Mqtt.Publishing;

/// <summary>A call that publishes many messages, with a time limit.</summary>
internal sealed class MessageSend : PublishSend, IValueTaskSource<MqttPublishReport>, IDisposable
{
    private readonly PublishQueue _queue;
    private readonly TopicPolicy _policy;
    private readonly TimeProvider _timeProvider;
    private readonly ITimer _timer;

    private MessagePublishes _group;
    private MqttPublishReport _report;
    private long _beganAt;

    public MessageSend(PublishQueue queue, TopicPolicy policy, TimeProvider timeProvider, TimerCallback timeOut)
    {
        _queue = queue;
        _policy = policy;
        _timeProvider = timeProvider;
        _group = new MessagePublishes(policy);
        _timer = timeProvider.CreateTimer(timeOut, this, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
    }

    public override PublishGroup? NextGroup => _group.HasUnsent ? _group : null;

    public void Begin(ReadOnlyMemory<MqttMessage> messages, TimeSpan limit)
    {
        _group.Begin(this, messages);
        _beganAt = _timeProvider.GetTimestamp();
        _timer.Change(limit, Timeout.InfiniteTimeSpan);
        Begin(messages.IsEmpty ? 0 : 1);
    }

    /// <summary>False for a timer that comes late and means an earlier call.</summary>
    public bool IsPast(TimeSpan limit) => !IsComplete && _timeProvider.GetElapsedTime(_beganAt) >= limit;

    public MqttPublishReport GetResult(short token)
    {
        var report = _report;
        _report = default;
        try
        {
            End(token);
            return report;
        }
        finally
        {
            _queue.Return(this);
        }
    }

    public void Dispose() => _timer.Dispose();

    protected override Exception? Finish(Exception? cause)
    {
        _timer.Change(Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        _report = _group.Report;
        _group.Leave();
        // The window may still hold some of a call that was given up.
        if (_group.Unsettled > 0)
            _group = new MessagePublishes(_policy);
        return cause;
    }
}
