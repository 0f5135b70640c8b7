using System.Collections.Immutable;
using System.Threading.Tasks.Sources;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Publishing;

/// <summary>A send of batches from dispatch.</summary>
internal sealed class BatchSend(PublishQueue queue, ParkedBatches parked) : PublishSend, IValueTaskSource
{
    private readonly List<BatchPublishes> _groups = [];
    private int _next;

    public override PublishGroup? NextGroup
    {
        get
        {
            while (_next < _groups.Count && !_groups[_next].HasUnsent)
                _next++;
            return _next < _groups.Count ? _groups[_next] : null;
        }
    }

    /// <returns>The number of new messages. Those of parked batches were counted before.</returns>
    public int Begin(ReadOnlySpan<MessageBatch> batches)
    {
        var (unsettled, begun) = (0, 0);
        foreach (var batch in batches)
        {
            var group = parked.Take(this, batch, out var isBegun);
            _groups.Add(group);
            unsettled += group.Unsettled > 0 ? 1 : 0;
            begun += isBegun ? batch.Count : 0;
        }

        foreach (var batch in batches)
            parked.Forget(batch);
        Begin(unsettled);
        return begun;
    }

    /// <summary>Names the missing connection: dispatch cancels because of its own time limit, and reports this cause.</summary>
    public override Exception CreateCancellation(IOException? noConnection, CancellationToken cancellationToken) =>
        noConnection ?? base.CreateCancellation(noConnection, cancellationToken);

    public void GetResult(short token)
    {
        ThrowIfNotEnded(token);
        try
        {
            End(token);
        }
        finally
        {
            queue.Return(this);
        }
    }

    protected override Exception? Finish(Exception? cause)
    {
        var failure = CreateException(cause);
        foreach (var group in _groups)
        {
            group.Detach();
            parked.Return(group);
        }

        _groups.Clear();
        _next = 0;
        return failure;
    }

    private Exception? CreateException(Exception? cause)
    {
        if (cause is null && _groups.Find(static group => group.WhyDeferred is not null) is { } deferred)
            cause = new IOException(deferred.WhyDeferred);
        if (cause is null && _groups.TrueForAll(static group => group.Refusal is null))
            return null;
        var outcomes = _groups.ConvertAll(static group => group.Outcome);
        if (outcomes.TrueForAll(static outcome => outcome == BatchOutcome.Unacknowledged))
            return cause;
        var refusals = _groups.Select(static group => group.Refusal).OfType<string>().Distinct(StringComparer.Ordinal).Take(3);
        string[] sentences = cause is null ? [.. refusals] : [FailureText.MessageOf(cause), .. refusals];
        return new BatchSendException([.. outcomes], $"Not every message was published. {string.Join(' ', sentences)}", cause);
    }
}

/// <summary>The messages of a batch, each published to the topic that the batch's handle names.</summary>
internal sealed class BatchPublishes(TopicPolicy policy) : PublishGroup
{
    // Null unless messages carry the trace.
    private readonly TracedProperties? _traced = policy.PublishesTraceContext ? new TracedProperties() : null;

    private MessageBatch? _batch;
    private PublishSettings _settings;

    public ProducerId Producer { get; private set; }

    public long Number { get; private set; }

    /// <summary>The reason of the first refused message; null when none was refused.</summary>
    public string? Refusal { get; private set; }

    public override bool SendsAgain => true;

    public BatchOutcome Outcome => Unsettled > 0 ? BatchOutcome.Unacknowledged : Refusal is null ? BatchOutcome.Acknowledged : BatchOutcome.Refused;

    public void Begin(PublishSend owner, MessageBatch batch)
    {
        Begin(owner, batch.Count);
        _traced?.Begin();
        (Producer, Number, Refusal) = (batch.Producer, batch.Number, null);
        _batch = batch;
        // A connection has no topic, so output for it can only be sent in envelope mode.
        _settings = batch.Handle.Name is { } topic
            ? policy.Find(topic)
            : new PublishSettings(default, default, default, $"A connection's output has no topic: set {nameof(MqttOptions.EnvelopePrefix)}, or write to a named handle.");
    }

    /// <summary>Continues where the earlier send of the same batch stopped.</summary>
    public void Resume(PublishSend owner, MessageBatch batch)
    {
        Attach(owner);
        _batch = batch;
    }

    public override void Detach()
    {
        base.Detach();
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
        var properties = message.Header?.Properties ?? default;
        fields.UserProperties = _traced is null ? properties.AsSpan() : _traced.Add(properties);
        if (message.Header is { } header)
        {
            fields.ContentType = header.ContentType;
            fields.ResponseTopic = header.ReplyTo;
            fields.CorrelationData = header.CorrelationData.AsSpan();
            fields.Retain |= header.IsRetained;
        }

        return default;
    }

    protected override void Record(int index, MqttPublishResult result)
    {
        if (!result.IsSuccess)
            Refusal ??= result.Reason;
    }
}

/// <summary>Keeps the batches of a send that was given up half-way until they are sent again, and objects for reuse. Guarded by the queue's lock.</summary>
/// <remarks>After a failed send, dispatch sends the same batches again before newer ones of the same producer, all of them or first only some. A batch is given up when the producer sends a newer one and not it.</remarks>
internal sealed class ParkedBatches(TopicPolicy policy)
{
    private const int MaxSpare = 4096;

    private readonly Dictionary<ProducerId, List<BatchPublishes>> _parked = [];
    private readonly Stack<BatchPublishes> _spare = [];

    /// <summary>Returns the parked publishes of the batch, or new ones.</summary>
    public BatchPublishes Take(PublishSend owner, MessageBatch batch, out bool isBegun)
    {
        isBegun = false;
        if (_parked.Count > 0 && _parked.TryGetValue(batch.Producer, out var parked) && parked.Find(group => group.Number == batch.Number) is { } resumed)
        {
            parked.Remove(resumed);
            resumed.Resume(owner, batch);
            return resumed;
        }

        isBegun = true;
        var group = _spare.TryPop(out var spare) ? spare : new BatchPublishes(policy);
        group.Begin(owner, batch);
        return group;
    }

    /// <summary>Removes the batches that the producer has given up: those before one that it sends. They are not reused, because the window may still contain their messages.</summary>
    public void Forget(MessageBatch sent)
    {
        if (_parked.Count == 0 || !_parked.TryGetValue(sent.Producer, out var parked))
            return;
        parked.RemoveAll(group => group.Number < sent.Number);
        if (parked.Count == 0)
            _parked.Remove(sent.Producer);
    }

    /// <summary>Takes back a group that a send has detached from.</summary>
    public void Return(BatchPublishes group)
    {
        if (group.Unsettled == 0)
        {
            if (_spare.Count < MaxSpare)
                _spare.Push(group);
            return;
        }

        if (!_parked.TryGetValue(group.Producer, out var parked))
            _parked[group.Producer] = parked = [];
        parked.Add(group);
    }
}
