using System.Globalization;
using System.Net;
using System.Text;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
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
        var limit = Watch.MaxPacketBytes;
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
        var limit = Watch.MaxPacketBytes;
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

    // Guards both fields below.
    private readonly Lock _lock = new();
    private int _inFlight;
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

/// <summary>Observes the connections of the application's client: numbers them, reads the broker's limits, and reports their changes.</summary>
internal sealed class ClientWatch : IDisposable
{
    private readonly IMqttClient _client;
    private readonly PublishWindow _window;
    private readonly ILogger _logger;
    private readonly int _setting;
    private readonly Action<ConnectionChange>? _changed;

    // Created at the first connection, when the broker's name is known.
    private ConnectionReporter? _reporter;
    // Null until a connection is lost, and again when the client has another one.
    private string? _lost;
    // The same, until something is to be sent: it is not known then whether the application ended the connection.
    private string? _unclearEnd;
    private int _connection;
    private uint _maxPacketBytes = uint.MaxValue;

    public ClientWatch(IMqttClient client, PublishWindow window, Action<ConnectionChange>? changed, ILogger logger)
    {
        _client = client;
        _window = window;
        _logger = GuardedLogger.Of(logger);
        _setting = window.Size;
        _changed = changed is null ? null : change => Report(changed, change);
        client.ConnectingAsync += OnConnectingAsync;
        client.ConnectedAsync += OnConnectedAsync;
        client.DisconnectedAsync += OnDisconnectedAsync;
        if (client.IsConnected)
            Open();
    }

    /// <summary>A number that changes when the client begins to reconnect.</summary>
    public int Connection => Volatile.Read(ref _connection);

    public uint MaxPacketBytes => Volatile.Read(ref _maxPacketBytes);

    /// <summary>Says why nothing can be sent while the client is not connected. An end that may have been the application's own counts as a loss now, because output waits for the connection.</summary>
    public IOException Refuse()
    {
        var fault = Volatile.Read(ref _lost);
        if (Interlocked.Exchange(ref _unclearEnd, null) is { } reason)
        {
            Lose(FindTarget(_client.Options), reason);
            // The client may have connected meanwhile.
            if (_client.IsConnected)
                Open();
        }

        return new IOException(fault ?? "The application's MQTT client is not connected: call its ConnectAsync, because BatchKit does not connect it.");
    }

    public void Dispose()
    {
        _client.ConnectingAsync -= OnConnectingAsync;
        _client.ConnectedAsync -= OnConnectedAsync;
        _client.DisconnectedAsync -= OnDisconnectedAsync;
    }

    // Called before anything is sent over the new connection, so that the rest of a send does not overtake messages that were lost with the old one.
    private Task OnConnectingAsync(MqttClientConnectingEventArgs occurrence)
    {
        Interlocked.Increment(ref _connection);
        return Task.CompletedTask;
    }

    private Task OnConnectedAsync(MqttClientConnectedEventArgs occurrence)
    {
        // MQTTnet returns zero for a limit that the broker did not name.
        int? receiveMaximum = occurrence.ConnectResult.ReceiveMaximum is > 0 and var limit ? limit : null;
        Volatile.Write(ref _maxPacketBytes, occurrence.ConnectResult.MaximumPacketSize is > 0 and var bytes ? bytes : uint.MaxValue);
        _window.Limit(receiveMaximum);
        if (receiveMaximum < _setting)
            Log.WindowLimited(_logger, receiveMaximum.Value, _setting);
        Log.ClientConnected(_logger, _window.Size, MaxPacketBytes);
        Volatile.Write(ref _unclearEnd, null);
        if (Interlocked.Exchange(ref _lost, null) is not null)
            Log.ClientRestored(_logger, FindTarget(_client.Options));
        Open();
        return Task.CompletedTask;
    }

    // MQTTnet also calls this after a failed attempt to connect, and without an error both after the application's own disconnect and when the broker closes the connection without a DISCONNECT.
    private Task OnDisconnectedAsync(MqttClientDisconnectedEventArgs occurrence)
    {
        if (!occurrence.ClientWasConnected)
            return Task.CompletedTask;
        var target = FindTarget(_client.Options);
        var mayBeOwn = occurrence is { Exception: null, Reason: MqttClientDisconnectReason.NormalDisconnection };
        var reason = mayBeOwn ? "The broker closed the connection, or the application ended it." : Describe(occurrence);
        Volatile.Write(ref _lost, $"The application's MQTT client lost its connection to {target}. {reason} The application connects it again, because BatchKit does not.");
        if (mayBeOwn)
        {
            Volatile.Write(ref _unclearEnd, reason);
            Log.ClientEnded(_logger, target);
        }
        else
        {
            Lose(target, reason);
        }

        return Task.CompletedTask;
    }

    private void Lose(string target, string reason)
    {
        Log.ClientLost(_logger, target, reason);
        Volatile.Read(ref _reporter)?.Lose(reason);
    }

    private static string Describe(MqttClientDisconnectedEventArgs occurrence) => occurrence.Reason != MqttClientDisconnectReason.NormalDisconnection
        ? $"The broker ended the connection: {occurrence.Reason}."
        : $"The connection broke: {(occurrence.Exception is { } failure ? FailureText.CauseOf(failure).GetType().Name : null)}.";

    private void Open()
    {
        if (_changed is not null && Volatile.Read(ref _reporter) is null)
            Interlocked.CompareExchange(ref _reporter, new ConnectionReporter(_changed, "transport", FindTarget(_client.Options)), null);
        Volatile.Read(ref _reporter)?.Open();
    }

    // Without user name, password and query, which may be a token.
    private static string FindTarget(MqttClientOptions? options) => options?.ChannelOptions switch
    {
        MqttClientTcpOptions { RemoteEndpoint: DnsEndPoint named } => string.Create(CultureInfo.InvariantCulture, $"{named.Host}:{named.Port}"),
        MqttClientTcpOptions { RemoteEndpoint: { } endpoint } => $"{endpoint}",
        MqttClientWebSocketOptions webSocket when Uri.TryCreate(webSocket.Uri, UriKind.Absolute, out var uri) => uri.Authority,
        _ => "the broker",
    };

    private void Report(Action<ConnectionChange> changed, ConnectionChange change)
    {
        try
        {
            changed(change);
        }
        catch (Exception fault)
        {
            Log.CallbackFailed(_logger, fault);
        }
    }
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
