using System.Threading.Tasks.Sources;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Publishing;

/// <summary>A call of <see cref="IMqttPublisher.PublishManyAsync"/>, with a time limit.</summary>
internal sealed class MessageSend : PublishSend, IValueTaskSource<MqttPublishReport>, IDisposable
{
    private readonly PublishQueue _queue;
    private readonly TopicPolicy _policy;
    private readonly TimeProvider _timeProvider;
    private readonly ITimer _timer;

    private MessagePublishes _group;
    private MqttPublishReport _report;
    private TimeSpan _limit;
    private long _beganAt;

    public MessageSend(PublishQueue queue, TopicPolicy policy, TimeProvider timeProvider, TimerCallback timeOut)
    {
        _queue = queue;
        _policy = policy;
        _timeProvider = timeProvider;
        _group = new MessagePublishes(policy);
        _timer = CallerContext.CreateTimer(timeProvider, timeOut, this);
    }

    public override PublishGroup? NextGroup => _group.HasUnsent ? _group : null;

    public void Begin(ReadOnlyMemory<MqttMessage> messages, TimeSpan limit)
    {
        _group.Begin(this, messages);
        (_limit, _beganAt) = (limit, _timeProvider.GetTimestamp());
        _timer.Change(limit, Timeout.InfiniteTimeSpan);
        Begin(messages.IsEmpty ? 0 : 1);
    }

    /// <summary>True when the limit has passed. A timer may fire early (.NET's by up to 3 ms), twice, or for an earlier call. Then it is set again for the remaining time.</summary>
    public bool HasTimedOut()
    {
        if (IsComplete)
            return false;
        var left = _limit - _timeProvider.GetElapsedTime(_beganAt);
        if (left <= TimeSpan.Zero)
            return true;
        _timer.Change(left, Timeout.InfiniteTimeSpan);
        return false;
    }

    public MqttPublishReport GetResult(short token)
    {
        ThrowIfNotEnded(token);
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
        _group.Detach();
        // The window may still contain messages of a call that was given up.
        if (_group.Unsettled > 0)
            _group = new MessagePublishes(_policy);
        return cause;
    }
}

/// <summary>The messages of one call.</summary>
internal sealed class MessagePublishes(TopicPolicy policy) : PublishGroup
{
    // Null unless messages carry the trace.
    private readonly TracedProperties? _traced = policy.PublishesTraceContext ? new TracedProperties() : null;

    private ReadOnlyMemory<MqttMessage> _messages;

    // Created for the first result that is not a plain success; the caller owns them afterwards.
    private byte[]? _reasonCodes;
    private Dictionary<int, string>? _reasons;

    // Consecutive messages usually have the same topic.
    private string? _lastTopic;
    private PublishSettings _lastSettings;

    public MqttPublishReport Report => new(_messages.Length, _reasonCodes, _reasons);

    public void Begin(PublishSend owner, ReadOnlyMemory<MqttMessage> messages)
    {
        Begin(owner, messages.Length);
        _traced?.Begin();
        _messages = messages;
    }

    public override void Detach()
    {
        base.Detach();
        _messages = default;
        (_reasonCodes, _reasons) = (null, null);
        _lastTopic = null;
    }

    public override MqttPublishResult Read(int index, ref PublishFields fields)
    {
        ref readonly var message = ref _messages.Span[index];
        var settings = Find(message.Topic);
        if (settings.Fault is { } fault)
            return new MqttPublishResult(MqttReasonCode.TopicNameInvalid, fault);
        fields.QualityOfService = message.QualityOfService ?? settings.QualityOfService;
        if (fields.QualityOfService is not (MqttQualityOfService.AtMostOnce or MqttQualityOfService.AtLeastOnce))
            return new MqttPublishResult(MqttReasonCode.QoSNotSupported, $"QoS {(int)fields.QualityOfService} is not supported; use 0 or 1.");
        if (message.Expiry < TimeSpan.Zero)
            return new MqttPublishResult(MqttReasonCode.ImplementationSpecificError, $"The message's {nameof(MqttMessage.Expiry)} ({message.Expiry}) is below zero.");
        fields.Topic = message.Topic;
        fields.Payload = message.Payload.Span;
        fields.Retain = message.Retain ?? settings.Retain;
        fields.Expiry = message.Expiry is { } expiry ? TopicPolicy.ToSeconds(expiry) : settings.Expiry;
        fields.UserProperties = _traced is null ? message.UserProperties.Span : _traced.Add(message.UserProperties.Span);
        fields.ContentType = message.ContentType;
        fields.ResponseTopic = message.ResponseTopic;
        fields.CorrelationData = message.CorrelationData.Span;
        return default;
    }

    protected override void Record(int index, MqttPublishResult result)
    {
        // No one waits for the result, or it is a plain success, which needs no entry.
        if (Owner is null || result == default)
            return;
        _reasonCodes ??= new byte[_messages.Length];
        _reasonCodes[index] = (byte)result.ReasonCode;
        if (result.Reason is { } reason)
            (_reasons ??= []).Add(index, reason);
    }

    private PublishSettings Find(string? topic)
    {
        if (_lastTopic is not null && string.Equals(_lastTopic, topic, StringComparison.Ordinal))
            return _lastSettings;
        _lastSettings = policy.Find(topic);
        _lastTopic = topic;
        return _lastSettings;
    }
}
