using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Publishing;

/// <summary>
/// Holds all messages to be published, in order. Writes them to the connection as the window allows, processes acknowledgements, and resends unacknowledged messages
/// after a lost connection.
/// </summary>
internal sealed class PublishQueue : IMqttPublisher, IConnectionUser, IPacketSource, IPacketHandler, IDisposable
{
    private readonly MqttOptions _options;
    private readonly string _target;
    private readonly TimeProvider _timeProvider;
    private readonly TopicPolicy _policy;
    private readonly Action<object?, CancellationToken> _cancel;
    private readonly TimerCallback _timeOut;
    private readonly Lock _gate = new();

    // _gate guards these fields and the objects in them.
    private readonly PublishSends _sends = new();
    private readonly PublishSendPool _pool = new();
    private readonly ParkedBatches _parked;
    private readonly PublishSession _session;
    private string _whyNotConnected;
    private bool _isClosed;

    // Set while there is a connection; read by every thread that flushes.
    private volatile PacketOutput? _output;
    private volatile MqttConnection? _connection;

    public PublishQueue(MqttOptions options, TimeProvider timeProvider)
    {
        _options = options;
        _target = options.Server.GetLeftPart(UriPartial.Authority);
        _timeProvider = timeProvider;
        _policy = new TopicPolicy(options);
        (_cancel, _timeOut) = (Cancel, TimeOut);
        _parked = new ParkedBatches(_policy);
        _session = new PublishSession(options, _sends, timeProvider);
        _whyNotConnected = $"There is no connection to {_target} yet.";
    }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        BatchSend send;
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isClosed, typeof(MqttTransport));
            send = _pool.TakeBatchSend() ?? new BatchSend(this, _parked);
            _session.Accept(send.Begin(batches.Span));
            _sends.Add(send);
            send.Watch(_cancel, cancellationToken);
        }

        _output?.Flush();
        return new ValueTask(send, send.Version);
    }

    public ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default)
    {
        MessageSend send;
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isClosed, typeof(MqttTransport));
            send = _pool.TakeMessageSend() ?? new MessageSend(this, _policy, _timeProvider, _timeOut);
            send.Begin(messages, _options.PublishTimeout);
            _sends.Add(send);
            _session.Accept(messages.Length);
            send.Watch(_cancel, cancellationToken);
        }

        _output?.Flush();
        return new ValueTask<MqttPublishReport>(send, send.Version);
    }

    /// <summary>Throws when there is no connection, for a send that does not wait for one.</summary>
    /// <exception cref="IOException">There is none.</exception>
    public void ThrowIfNotConnected()
    {
        lock (_gate)
        {
            if (!_session.IsConnected)
                throw new IOException($"{_whyNotConnected} {nameof(MqttOptions.FailFast)} is set, so the send does not wait for the next connection.");
        }
    }

    /// <summary>The largest packet that the broker of the last connection accepts.</summary>
    public uint FindMaxPacketBytes()
    {
        lock (_gate)
            return _session.MaxPacketBytes;
    }

    public MqttTransportStatistics GetStatistics()
    {
        lock (_gate)
            return _session.Statistics;
    }

    /// <summary>Accepts nothing more and fails all sends. Call it after the connection is closed.</summary>
    public void Dispose()
    {
        lock (_gate)
        {
            _isClosed = true;
            _sends.GiveUpAll(new ObjectDisposedException(nameof(MqttTransport)));
            _pool.Dispose();
        }
    }

    public void Return(BatchSend send)
    {
        lock (_gate)
            _pool.Return(send);
    }

    public void Return(MessageSend send)
    {
        lock (_gate)
            _pool.Return(send);
    }

    public Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken) => ServeAsync(connection, () =>
    {
        Open(connection.Open(this));
        return connection.RunAsync(this, cancellationToken);
    });

    /// <summary>Publishes over a connection while something runs it.</summary>
    /// <param name="connection">The connection.</param>
    /// <param name="run">Runs the connection until it ends, calls <see cref="Open"/>, and hands packets on to this handler. It returns why the connection ended.</param>
    public async Task<string> ServeAsync(MqttConnection connection, Func<Task<string>> run)
    {
        _connection = connection;
        var reason = "It ended with an error.";
        try
        {
            reason = await run().ConfigureAwait(false);
            return reason;
        }
        finally
        {
            (_output, _connection) = (null, null);
            Disconnect(reason, connection.End?.Notice, connection.End is { IsSuspicious: true });
        }
    }

    /// <summary>Starts to write waiting messages to the output of a connection.</summary>
    public void Open(PacketOutput output)
    {
        _output = output;
        output.Flush();
    }

    /// <summary>Returns a packet id that no message has, for a packet that is not a message.</summary>
    public ushort FindUnusedPacketId()
    {
        lock (_gate)
            return _session.UnusedPacketId;
    }

    public void Connect(MqttConnection connection) => Connect(connection.Limits, connection.Version, connection.Target);

    public void Connect(ConnackPacket limits, MqttVersion version, string target)
    {
        lock (_gate)
            _session.Connect(limits, version, target);
    }

    public void Disconnect(string reason, MqttReasonCode? notice, bool isSuspicious)
    {
        lock (_gate)
        {
            _session.Disconnect(notice, isSuspicious);
            _whyNotConnected = $"The connection to {_target} was lost: {reason}";
            if (_options.FailFast)
                _sends.GiveUpAll(new IOException(_whyNotConnected));
        }
    }

    public void ConnectFailed(MqttConnectException failure)
    {
        lock (_gate)
        {
            _whyNotConnected = FailureText.MessageOf(failure);
            if (failure.IsRefusal || _options.FailFast)
                _sends.GiveUpAll(failure);
        }
    }

    public void Fill(PacketBuffer buffer)
    {
        lock (_gate)
            _session.Fill(buffer);
    }

    public void CompleteWrite()
    {
        lock (_gate)
            _session.CompleteWrite();
    }

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        if (header.Type != PacketType.Puback)
            throw new MqttProtocolException(MqttReasonCode.ProtocolError, $"The broker sent {header.Type}, which a publisher does not expect.");
        lock (_gate)
            _session.Acknowledge(body);
    }

    public void HandlePing()
    {
        lock (_gate)
            _session.AcceptPing();
    }

    public ValueTask FinishReadAsync(CancellationToken cancellationToken)
    {
        _output?.Flush();
        return ValueTask.CompletedTask;
    }

    private void Cancel(object? state, CancellationToken cancellationToken)
    {
        var send = (PublishSend)state!;
        lock (_gate)
        {
            if (!send.IsComplete)
                GiveUp(send, send.CreateCancellation(_session.IsConnected ? null : new IOException(_whyNotConnected), cancellationToken));
        }
    }

    private void TimeOut(object? state)
    {
        var send = (MessageSend)state!;
        lock (_gate)
        {
            if (!send.HasTimedOut())
                return;
            var late = new TimeoutException($"{_target} did not acknowledge all messages within {_options.PublishTimeout} ({nameof(MqttOptions.PublishTimeout)}).");
            GiveUp(send, _session.IsConnected ? late : new IOException(_whyNotConnected, late));
        }
    }

    private void GiveUp(PublishSend send, Exception cause)
    {
        send.GiveUp(cause);
        if (_session.FindStall() is { } stall)
            _connection?.Abandon(stall);
    }
}

/// <summary>The sends that have not ended, and in order those with unsent messages. A send leaves both lists when it ends. Guarded by the queue's lock.</summary>
internal sealed class PublishSends
{
    private readonly LinkedList<PublishSend> _open = new();
    private readonly LinkedList<PublishSend> _unsent = new();

    /// <summary>The group whose message is to be sent next; null when there is none.</summary>
    public PublishGroup? Next
    {
        get
        {
            while (_unsent.First is { } first)
            {
                if (first.Value.NextGroup is { } group)
                    return group;
                _unsent.Remove(first);
            }

            return null;
        }
    }

    /// <summary>Adds a send that has begun.</summary>
    public void Add(PublishSend send)
    {
        if (send.IsComplete)
            return;
        _open.AddLast(send.OpenNode);
        if (send.HasUnsent)
            _unsent.AddLast(send.UnsentNode);
    }

    public void GiveUpAll(Exception cause)
    {
        while (_open.First is { } first)
            first.Value.GiveUp(cause);
    }
}

/// <summary>Sends that later calls can reuse. Guarded by the queue's lock.</summary>
internal sealed class PublishSendPool : IDisposable
{
    // The number of concurrent calls for which memory is kept.
    private const int MaxSpare = 64;

    private readonly Stack<BatchSend> _batchSends = [];
    private readonly Stack<MessageSend> _messageSends = [];
    private bool _isDisposed;

    public BatchSend? TakeBatchSend() => _batchSends.TryPop(out var send) ? send : null;

    public MessageSend? TakeMessageSend() => _messageSends.TryPop(out var send) ? send : null;

    public void Return(BatchSend send)
    {
        if (_batchSends.Count < MaxSpare)
            _batchSends.Push(send);
    }

    public void Return(MessageSend send)
    {
        if (_messageSends.Count < MaxSpare && !_isDisposed)
            _messageSends.Push(send);
        else
            send.Dispose();
    }

    public void Dispose()
    {
        _isDisposed = true;
        while (_messageSends.TryPop(out var send))
            send.Dispose();
    }
}
