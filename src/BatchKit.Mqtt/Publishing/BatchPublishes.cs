using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Publishing;

/// <summary>A batch: each of its messages is one on the topic that its handle names.</summary>
internal sealed class BatchPublishes(TopicPolicy policy) : PublishGroup
{
    private MessageBatch? _batch;
    private PublishSettings _settings;

    public ProducerId Producer { get; private set; }

    public long Number { get; private set; }

    /// <summary>The first thing that was wrong with one of its messages; null when nothing was.</summary>
    public string? Refusal { get; private set; }

    public BatchOutcome Outcome => Unsettled > 0 ? BatchOutcome.Unacknowledged : Refusal is null ? BatchOutcome.Acknowledged : BatchOutcome.Refused;

    public void Begin(PublishSend owner, MessageBatch batch)
    {
        Begin(owner, batch.Count);
        (Producer, Number, Refusal) = (batch.Producer, batch.Number, null);
        _batch = batch;
        // A connection has no topic: only envelope mode carries its output.
        _settings = batch.Handle.Name is { } topic
            ? policy.Find(topic)
            : new PublishSettings(default, default, default, $"A connection's output has no topic: set {nameof(MqttOptions.EnvelopePrefix)}, or write to a named handle.");
    }

    /// <summary>Goes on where it was left: the same batch is being sent again.</summary>
    public void Resume(PublishSend owner, MessageBatch batch)
    {
        Adopt(owner);
        _batch = batch;
    }

    public override void Leave()
    {
        base.Leave();
        _batch = null;
    }

    public override MqttPublishResult Read(int index, ref PublishFields fields)
    {
        if (_settings.Fault is { } fault)
            return new MqttPublishResult(MqttReasonCode.TopicNameInvalid, fault);
        var message = _batch![index];
        if (message.Kind == MessageKind.Control)
            return new MqttPublishResult(MqttReasonCode.ImplementationSpecificError, $"A control message can't be published to a topic; set {nameof(MqttOptions.EnvelopePrefix)} to carry it.");
        fields.Topic = _batch.Handle.Name!;
        fields.Payload = message.Payload.Span;
        (fields.QualityOfService, fields.Retain, fields.Expiry) = (_settings.QualityOfService, _settings.Retain, _settings.Expiry);
        if (message.Header is { } header)
        {
            fields.ContentType = header.ContentType;
            fields.UserProperties = header.Properties.AsSpan();
        }

        return default;
    }

    protected override void Record(int index, MqttPublishResult result)
    {
        if (!result.IsSuccess)
            Refusal ??= result.Reason;
    }
}
