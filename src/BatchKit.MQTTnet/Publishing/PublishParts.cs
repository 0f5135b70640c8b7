using System.Text;
using BatchKit.Transports;
using Microsoft.Extensions.ObjectPool;
using MQTTnet;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>The objects that all sends of a transport share.</summary>
internal sealed record PublishParts(IMqttClient Client, ClientWatch Watch, PublishWindow Window, PropertyLists Lists, PublishSettings Settings, bool AllowSystemTopics)
{
    // Type, remaining length, packet id, length of the properties, expiry, and the identifiers and length prefixes of everything except user properties.
    private const int PacketOverheadBytes = 32;
    private const int PropertyOverheadBytes = 5;

    /// <summary>Why a message can't be sent; null when it can.</summary>
    public string? FindFault(string topic, BatchMessage message, bool sendsHeader)
    {
        if (sendsHeader && MessageTexts.FindFault(message.Header) is { } fault)
            return fault;
        if (Watch.Limits.FindFault(Settings.QualityOfService, Settings.Retain || message.Header is { IsRetained: true }, topicAlias: 0) is { } unsupported)
            return unsupported;
        var limit = Watch.Limits.MaxPacketBytes;
        // UTF-8 needs at most three bytes for a UTF-16 code unit, so only messages that may be too large are measured exactly.
        if (limit == uint.MaxValue || Measure(topic, message, static text => text.Length * 3L) <= limit)
            return null;
        var bytes = Measure(topic, message, static text => Encoding.UTF8.GetByteCount(text));
        return bytes <= limit ? null : $"A message needs a packet of up to {bytes} bytes; the broker accepts at most {limit}.";
    }

    /// <summary>Why an application's own message can't be sent; null when it can.</summary>
    public string? FindFault(MqttApplicationMessage message)
    {
        if (MessageTexts.FindFault(message, allowsAlias: true, AllowSystemTopics) is { } fault)
            return fault;
        if (Watch.Limits.FindFault(message.QualityOfServiceLevel, message.Retain, message.TopicAlias) is { } unsupported)
            return unsupported;
        var limit = Watch.Limits.MaxPacketBytes;
        if (limit == uint.MaxValue || Measure(message) is var bytes && bytes <= limit)
            return null;
        return $"A message needs a packet of up to {bytes} bytes; the broker accepts at most {limit}.";
    }

    private static long Measure(MqttApplicationMessage message)
    {
        var bytes = PacketOverheadBytes + message.Payload.Length + MeasureText(message.Topic) + MeasureText(message.ContentType) + MeasureText(message.ResponseTopic);
        if (message.ResponseTopic is not null)
            bytes += PropertyOverheadBytes;
        if (message.CorrelationData is { } data)
            bytes += PropertyOverheadBytes + data.Length;
        if (message.UserProperties is null)
            return bytes;
        foreach (var property in message.UserProperties)
            bytes += PropertyOverheadBytes + MeasureText(property.Name) + UserProperty.BytesOfValue(property);
        return bytes;
    }

    private static long MeasureText(string? text) => text is null ? 0 : Encoding.UTF8.GetByteCount(text);

    private static long Measure(string topic, BatchMessage message, Func<string, long> measure)
    {
        var bytes = PacketOverheadBytes + measure(topic) + message.Payload.Length;
        if (message.Header is not { } header)
            return bytes;
        if (header.ContentType is { } contentType)
            bytes += measure(contentType);
        if (header.ReplyTo is { } replyTo)
            bytes += PropertyOverheadBytes + measure(replyTo);
        if (!header.CorrelationData.IsDefaultOrEmpty)
            bytes += PropertyOverheadBytes + header.CorrelationData.Length;
        if (header.Properties.IsDefaultOrEmpty)
            return bytes;
        foreach (var property in header.Properties)
            bytes += PropertyOverheadBytes + measure(property.Key) + measure(property.Value);
        return bytes;
    }
}

/// <summary>Counts the unacknowledged publishes, and lets sends wait for capacity.</summary>
internal sealed class PublishWindow
{
    private readonly int _setting;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private int _inFlight;
    private long _ended;
    private TaskCompletionSource? _waiter;

    private volatile int _size;

    public PublishWindow(int setting) => (_setting, _size) = (setting, setting);

    public int Size => _size;

    public int InFlight
    {
        get
        {
            lock (_lock)
                return _inFlight;
        }
    }

    /// <summary>The number of publishes that have ended.</summary>
    public long Ended
    {
        get
        {
            lock (_lock)
                return _ended;
        }
    }

    /// <summary>Why a call can't go on, for a call that is cancelled: publishes that the broker does not acknowledge fill the window. Null when it is not full, or one has ended.</summary>
    /// <param name="endedBefore"><see cref="Ended"/> when the call began.</param>
    public string? FindStall(long endedBefore)
    {
        lock (_lock)
        {
            return _inFlight < _size || _ended != endedBefore
                ? null
                : $"The broker acknowledged none of {_inFlight} publishes during the call, and the window has no place for more. One that it never acknowledges keeps its place until the application connects the client again.";
        }
    }

    public void Limit(int? receiveMaximum) => _size = Math.Min(_setting, receiveMaximum ?? _setting);

    public bool TryEnter()
    {
        lock (_lock)
        {
            if (_inFlight >= _size)
                return false;
            _inFlight++;
            return true;
        }
    }

    public void Leave()
    {
        TaskCompletionSource? waiter = null;
        lock (_lock)
        {
            _inFlight--;
            _ended++;
            if (_waiter is not null && HasCapacity)
                (waiter, _waiter) = (_waiter, null);
        }

        waiter?.SetResult();
    }

    public Task WaitForCapacityAsync()
    {
        lock (_lock)
        {
            if (HasCapacity)
                return Task.CompletedTask;
            _waiter ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            return _waiter.Task;
        }
    }

    // One free place is enough. Waiting for more would delay the next write, which carries the TCP acknowledgement. A broker that uses Nagle's algorithm waits up to 40 ms for
    // it before it sends more PUBACKs: with a window of 250 that allowed only 5,600 messages per second.
    private bool HasCapacity => _inFlight < _size;
}

/// <summary>Pools lists of user properties. A list may be returned only after the task of its publish has ended, because the client may encode it until then.</summary>
internal sealed class PropertyLists
{
    private const int MaxKept = 1024;
    private const int MaxKeptProperties = 64;

    private readonly ObjectPool<List<MqttUserProperty>> _pool = new DefaultObjectPool<List<MqttUserProperty>>(new Policy(), MaxKept);

    public List<MqttUserProperty> Rent() => _pool.Get();

    public void Return(List<MqttUserProperty> list) => _pool.Return(list);

    private sealed class Policy : PooledObjectPolicy<List<MqttUserProperty>>
    {
        public override List<MqttUserProperty> Create() => [];

        public override bool Return(List<MqttUserProperty> obj)
        {
            if (obj.Capacity > MaxKeptProperties)
                return false;
            obj.Clear();
            return true;
        }
    }
}
