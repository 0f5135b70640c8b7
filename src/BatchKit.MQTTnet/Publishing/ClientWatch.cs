using System.Globalization;
using System.Net;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using MQTTnet;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>Observes the connections of the application's client: numbers them, reads the broker's limits, and reports their changes.</summary>
internal sealed class ClientWatch : IDisposable
{
    // How long the client has to tell of the end of a connection, once a send has met it. Its handlers run one after the other, and one of the application's that throws or hangs keeps the event from this one.
    private static readonly TimeSpan TellingLimit = TimeSpan.FromSeconds(1);

    private readonly IMqttClient _client;
    private readonly TimeProvider _timeProvider;
    private readonly PublishWindow _window;
    private readonly ILogger _logger;
    private readonly int _setting;
    private readonly int? _receiveMaximum;
    private readonly Action<ConnectionChange>? _changed;

    // Created at the first connection, when the broker's name is known.
    private ConnectionReporter? _reporter;
    // Null until a connection is lost, and again when the client has another one.
    private string? _lost;
    // The same, until something is to be sent: it is not known then whether the application ended the connection.
    private string? _unclearEnd;
    // Guards the two below: when a send first met the end of a connection that is open as far as is known here, and whether one is.
    private readonly Lock _lock = new();
    private long? _untoldSince;
    private volatile bool _isOpen;
    private int _connection;
    private volatile BrokerLimits _limits = BrokerLimits.Unknown;

    public ClientWatch(IMqttClient client, PublishWindow window, int? receiveMaximum, Action<ConnectionChange>? changed, TimeProvider timeProvider, ILogger logger)
    {
        _client = client;
        _timeProvider = timeProvider;
        _window = window;
        _logger = GuardedLogger.Of(logger);
        _setting = window.Size;
        _receiveMaximum = receiveMaximum;
        _changed = changed is null ? null : change => Report(changed, change);
        client.ConnectingAsync += OnConnectingAsync;
        client.ConnectedAsync += OnConnectedAsync;
        client.DisconnectedAsync += OnDisconnectedAsync;
        if (client.IsConnected)
            Open();
    }

    /// <summary>A number that changes when the client begins to reconnect.</summary>
    public int Connection => Volatile.Read(ref _connection);

    /// <summary>The limits of the broker of the last connection.</summary>
    public BrokerLimits Limits => _limits;

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

        else if (fault is null)
        {
            fault = LoseUntold();
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
        // The broker's own limit is known when OnConnectedAsync runs, but earlier handlers of that event may take long, and sends begin meanwhile.
        _window.Limit(_receiveMaximum ?? PublishManyExtensions.AssumedReceiveMaximum);
        return Task.CompletedTask;
    }

    private Task OnConnectedAsync(MqttClientConnectedEventArgs occurrence)
    {
        // MQTTnet returns zero for a limit that the broker did not name.
        int? receiveMaximum = occurrence.ConnectResult.ReceiveMaximum is > 0 and var limit ? limit : null;
        var limits = _limits = BrokerLimits.Of(occurrence.ConnectResult, _client.Options?.ProtocolVersion);
        _window.Limit(receiveMaximum);
        if (receiveMaximum < _setting)
            Log.WindowLimited(_logger, receiveMaximum.Value, _setting);
        Log.ClientConnected(_logger, _window.Size, limits.MaxPacketBytes);
        Restore();
        return Task.CompletedTask;
    }

    // MQTTnet also calls this after a failed attempt to connect, and without an error both after the application's own disconnect and when the broker closes the connection without a DISCONNECT.
    private Task OnDisconnectedAsync(MqttClientDisconnectedEventArgs occurrence)
    {
        if (!occurrence.ClientWasConnected)
            return Task.CompletedTask;
        _isOpen = false;
        var target = FindTarget(_client.Options);
        var mayBeOwn = occurrence is { Exception: null, Reason: MqttClientDisconnectReason.NormalDisconnection };
        var reason = mayBeOwn ? "The broker closed the connection, or the application ended it." : Describe(occurrence);
        Volatile.Write(ref _lost, DescribeLoss(target, reason));
        if (mayBeOwn)
        {
            Volatile.Write(ref _unclearEnd, reason);
            Log.ClientEnded(_logger, target);
        }
        else
        {
            Lose(target, reason);
        }

        // An earlier handler of this event, which is the application's, may have connected it again.
        if (_client.IsConnected)
            Restore();
        return Task.CompletedTask;
    }

    private void Restore()
    {
        Volatile.Write(ref _unclearEnd, null);
        if (Interlocked.Exchange(ref _lost, null) is not null)
            Log.ClientRestored(_logger, FindTarget(_client.Options));
        Open();
    }

    private string? LoseUntold()
    {
        if (!_isOpen)
            return null;
        lock (_lock)
        {
            var now = _timeProvider.GetTimestamp();
            _untoldSince ??= now;
            if (!_isOpen || _timeProvider.GetElapsedTime(_untoldSince.Value, now) < TellingLimit)
                return null;
            _isOpen = false;
        }

        const string reason = "Its DisconnectedAsync did not come: an earlier handler of that event, which is the application's, has thrown or does not end.";
        var target = FindTarget(_client.Options);
        var fault = DescribeLoss(target, reason);
        Volatile.Write(ref _lost, fault);
        Lose(target, reason);
        if (_client.IsConnected)
            Restore();
        return fault;
    }

    private static string DescribeLoss(string target, string reason) => $"The application's MQTT client lost its connection to {target}. {reason} The application connects it again, because BatchKit does not.";

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
        lock (_lock)
            (_untoldSince, _isOpen) = (null, true);
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
