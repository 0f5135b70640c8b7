using System.Collections.Concurrent;
using System.Globalization;
using System.Text;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>
/// A process's claim on a number, over a separate connection. It is a retained message that the connection's will clears. A process that receives its own claim before any other claim has the number. This works
/// because the broker passes claims on in one order, and a process subscribes to all claims before it publishes its own.
/// </summary>
internal sealed class NodeClaim : IConnectionUser, IPacketHandler, IAsyncDisposable
{
    private const ushort SubscribePacketId = 1;
    private const ushort FirstPublishPacketId = 2;
    private const int PublishPacketIds = 1000;

    private static readonly TimeSpan AttemptInterval = TimeSpan.FromMilliseconds(250);

    private readonly int _number;
    private readonly string _id = Guid.NewGuid().ToString("N")[..12];
    private readonly string _holder;
    private readonly string _topic;
    private readonly string _siblings;
    private readonly MqttOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly Quarantine _quarantine;
    private readonly MqttLink _link;
    private readonly TaskCompletionSource<bool> _started = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Written by the task that serves the connection; read by everyone.
    private volatile TaskCompletionSource<string> _taken = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile TaskCompletionSource _free = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile string? _takenReason;
    private volatile string? _fault;
    private volatile PacketOutput? _output;
    private volatile ClaimAttempt _attempt = new("", isHeld: false);

    private readonly ConcurrentQueue<TaskCompletionSource<string?>> _questions = [];
    private readonly ClaimEvidence _evidence;

    // True while the broker keeps no claims, or refuses them: then no one can say who has the number.
    private volatile bool _isUndecidable;
    private int _attempts;
    private int _packets;

    // Guards the field below it, and the order of claims and of the last withdrawal: a claim behind it would stay, because an orderly disconnect discards the will.
    private readonly Lock _lock = new();
    private volatile bool _isOver;

    public NodeClaim(MqttOptions options, int number, TimeProvider timeProvider, GuardedLogger logger)
    {
        (_number, _timeProvider, _logger) = (number, timeProvider, logger);
        _evidence = new ClaimEvidence(timeProvider);
        _quarantine = new Quarantine(new ReceiverLog(logger, timeProvider));
        _holder = NodeTakenException.NameHolder(_id);
        _siblings = EnvelopeTopics.Leases(options.EnvelopePrefix!, number);
        _topic = _siblings + _id;
        _options = options.Copy();
        // The callback reports only the connections that carry the application's messages.
        _options.ConnectionChanged = null;
        _options.Will = new MqttWill(new MqttMessage(_topic, default) { QualityOfService = MqttQualityOfService.AtLeastOnce, Retain = true });
        // Of this process alone: of two with one ClientId, each would end the other's claim.
        var clientId = $"{options.ClientId ?? "batchkit"}-node-{_id}";
        _link = new MqttLink(_options, MqttLink.NodeLease, clientId, sessionExpiry: TimeSpan.Zero, this, timeProvider, logger);
    }

    /// <summary>A human-readable reason why another process has the number; null while no other process is known to have it.</summary>
    public string? TakenReason => _takenReason;

    /// <summary>Completes with that reason when another process has the number.</summary>
    public Task<string> Taken => _taken.Task;

    /// <summary>Completes when no other process has the number.</summary>
    public Task Free => _free.Task;

    /// <summary>A human-readable reason why it is not known whether another process has the number; null while that is known.</summary>
    public string? Fault => _fault ?? (_link.Fault is { } fault ? $"Node {_number} is not leased. {fault}" : null);

    /// <summary>Starts to claim the number.</summary>
    /// <returns>False when another process has the number; true when this process has it, or when the holder is not known yet.</returns>
    public async Task<bool> StartAsync(CancellationToken cancellationToken)
    {
        _ = _link.StartAsync();
        return await _started.Task.WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    public async ValueTask DisposeAsync()
    {
        lock (_lock)
            _isOver = true;
        AnswerAfterEnd();
        // A successor then finds the number free at once. Without a connection, the will clears the claim.
        if (_output is { } output)
            Publish(output, "");
        await _link.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>False when another process may have the number by now, because the broker may have ended the claim. True where no one can say who has it.</summary>
    public bool IsCertain => _evidence.IsFresh || IsUndecidable;

    private bool IsUndecidable => _isUndecidable && _takenReason is null;

    /// <summary>Asks the broker who has the number now: what was known before may be from before a freeze of this process.</summary>
    /// <returns>A human-readable reason why this process may not use the number; null when it has the number, or when the broker tells no one.</returns>
    public Task<string?> AskAsync()
    {
        if (IsUndecidable)
            return Task.FromResult<string?>(null);
        var question = new TaskCompletionSource<string?>(TaskCreationOptions.RunContinuationsAsynchronously);
        _questions.Enqueue(question);
        // Either the attempt begins after this and sees the question, or it is seen here.
        Interlocked.MemoryBarrier();
        _attempt.Repeat();
        if (_isOver)
            AnswerAfterEnd();
        return question.Task;
    }

    public void ConnectFailed(MqttConnectException failure)
    {
        _isUndecidable = failure.IsRefusal;
        _started.TrySetResult(true);
        Answer(_questions.Count, failure.IsRefusal ? null : FailureText.MessageOf(failure));
    }

    public async Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken)
    {
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        var output = connection.Open(source: null);
        _fault ??= $"Node {_number} is not leased yet: the broker has not passed the claim on.";
        var running = connection.RunAsync(this, cancellationToken);
        _output = output;
        var holding = HoldAsync(connection, output, ending.Token);
        try
        {
            if (await Task.WhenAny(running, holding).ConfigureAwait(false) == holding)
                connection.Abandon("The claim on the node's number failed.");
            return await running.ConfigureAwait(false);
        }
        finally
        {
            _output = null;
            await ending.CancelAsync().ConfigureAwait(false);
            await holding.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            _started.TrySetResult(true);
        }
    }

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        var attempt = _attempt;
        switch (header.Type)
        {
            case PacketType.Publish:
                if (_quarantine.TryRead(header, body, _options.Version, out var publish))
                    HandleClaim(attempt, Encoding.UTF8.GetString(publish.Topic), Encoding.UTF8.GetString(publish.Payload), publish.Retain);
                break;
            case PacketType.Suback:
                if (SubackPacket.Read(body, _options.Version).ReasonCodes[0] is >= MqttReasonCode.UnspecifiedError and var refused)
                    attempt.Fail($"The broker refused the subscription {MqttTopics.Show($"{_siblings}+")}: {refused}.");
                attempt.Subscribe();
                break;
            case PacketType.Puback:
                var packetId = PubackPacket.Read(body, _options.Version, out var reasonCode, out _);
                if (reasonCode >= MqttReasonCode.UnspecifiedError)
                    attempt.Fail($"The broker refused the claim {MqttTopics.Show(_topic)}: {reasonCode}.");
                _evidence.Confirm(packetId);
                break;
            default:
                throw MqttProtocolException.Forbidden($"{header.Type} is not allowed for a client that publishes with QoS 1 and subscribes with QoS 0.");
        }
    }

    public ValueTask FinishReadAsync(CancellationToken cancellationToken) => ValueTask.CompletedTask;

    private void HandleClaim(ClaimAttempt attempt, string topic, string claim, bool isRetained)
    {
        if (claim.Length == 0 || !topic.StartsWith(_siblings, StringComparison.Ordinal))
            return;
        if (!string.Equals(topic, _topic, StringComparison.Ordinal))
            attempt.Refuse(MqttTopics.Show(claim), isRetained);
        else if (string.Equals(claim, attempt.Claim, StringComparison.Ordinal))
        {
            _evidence.Confirm();
            attempt.Accept();
        }
        else if (isRetained)
        {
            attempt.Keep();
        }
    }

    // No attempt follows that would answer.
    private void AnswerAfterEnd() => Answer(int.MaxValue, _takenReason ?? $"Node {_number} is not leased any more.");

    private void Answer(int questions, string? answer)
    {
        for (; questions > 0 && _questions.TryDequeue(out var question); questions--)
            question.TrySetResult(answer);
    }

    // Claims until the connection ends: repeats the attempt while another process has the number, and after that only keeps the claim from expiring.
    private async Task HoldAsync(MqttConnection connection, PacketOutput output, CancellationToken cancellationToken)
    {
        var isAccepted = false;
        _evidence.Begin(connection.KeepAlive);
        while (true)
        {
            var attempt = _attempt = new ClaimAttempt(string.Create(CultureInfo.InvariantCulture, $"{_holder}.{++_attempts}"), isAccepted);
            Interlocked.MemoryBarrier();
            var questions = _questions.Count;
            var (holder, fault) = connection.Limits.IsRetainAvailable
                ? await ClaimAsync(attempt, output, cancellationToken).ConfigureAwait(false)
                : new ClaimOutcome(Holder: null, "The broker keeps no retained messages.");
            // A broker that has passed a claim on over this connection does not answer any more.
            if (fault is not null && isAccepted)
                return;
            if (fault is not null)
                Doubt(fault);
            else if (holder is null)
                Accept();
            else
                Refuse(holder);
            Answer(questions, _takenReason);
            isAccepted = fault is null && holder is null;
            if (isAccepted)
            {
                if (await KeepAsync(attempt, output, cancellationToken).ConfigureAwait(false) is not { } earlier)
                    continue;
                Refuse(earlier);
                isAccepted = false;
            }

            Publish(output, "");
            await Task.Delay(fault is null ? AttemptInterval : _options.MaxReconnectDelay, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
    }

    private async Task<ClaimOutcome> ClaimAsync(ClaimAttempt attempt, PacketOutput output, CancellationToken cancellationToken)
    {
        try
        {
            output.Append(SubscribePacket.Write(SubscribePacketId, [new MqttSubscription { Filter = $"{_siblings}+", QualityOfService = MqttQualityOfService.AtMostOnce }], _options.Version));
            output.Flush();
            await attempt.Subscribed.WaitAsync(_options.ConnectTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
            if (attempt.IsHeld || !attempt.Decided.IsCompleted)
                Publish(output, attempt.Claim);
            return await attempt.Decided.WaitAsync(_options.ConnectTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            return new ClaimOutcome(Holder: null, $"The broker did not pass the claim on within {_options.ConnectTimeout}.");
        }
    }

    /// <returns>The process that turns out to have the number, because a cluster of brokers passed its older claim on later; null when it is to be decided again.</returns>
    private async Task<string?> KeepAsync(ClaimAttempt attempt, PacketOutput output, CancellationToken cancellationToken)
    {
        while (true)
        {
            var start = _timeProvider.GetTimestamp();
            try
            {
                return await attempt.Ended.WaitAsync(_evidence.RefreshInterval, _timeProvider, cancellationToken).ConfigureAwait(false);
            }
            catch (TimeoutException) when (_timeProvider.GetElapsedTime(start) < ClaimEvidence.Expiry - _evidence.RefreshInterval)
            {
                Publish(output, attempt.Claim);
            }
            catch (TimeoutException)
            {
                // The process stood still: the claim may have expired, and another process may have claimed the number since.
                return null;
            }
        }
    }

    private void Accept()
    {
        (_fault, _takenReason, _isUndecidable) = (null, null, false);
        if (_taken.Task.IsCompleted)
            _taken = new TaskCompletionSource<string>(TaskCreationOptions.RunContinuationsAsynchronously);
        _free.TrySetResult();
        _started.TrySetResult(true);
    }

    private void Refuse(string holder)
    {
        (_fault, _isUndecidable) = (null, false);
        var sentence = NodeTakenException.Describe(_number, holder, MqttTopics.Show(_holder), "one and a half times its keep-alive");
        if (_free.Task.IsCompleted)
            _free = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        _takenReason = sentence;
        if (_taken.TrySetResult(sentence))
            Log.NodeTaken(_logger, sentence);
        _started.TrySetResult(false);
    }

    private void Doubt(string fault)
    {
        var sentence = $"Node {_number} is not leased, so another process may have the same number. {fault} A receiver of frames needs the right to publish and to subscribe to {_siblings}+.";
        if (_fault != sentence)
            Log.NodeNotLeased(_logger, sentence);
        (_fault, _isUndecidable) = (sentence, true);
        _started.TrySetResult(true);
    }

    // An empty claim withdraws the one before.
    private void Publish(PacketOutput output, string claim)
    {
        var fields = new PublishFields
        {
            Topic = _topic,
            Payload = Encoding.UTF8.GetBytes(claim),
            QualityOfService = MqttQualityOfService.AtLeastOnce,
            Retain = true,
            Expiry = claim.Length == 0 ? 0 : (uint)ClaimEvidence.Expiry.TotalSeconds,
        };
        var packet = new byte[PublishPacket.Measure(fields, _options.Version)];
        var packetId = (ushort)(FirstPublishPacketId + ((uint)Interlocked.Increment(ref _packets) % PublishPacketIds));
        PublishPacket.Write(packet, fields, _options.Version, packetId, isDuplicate: false);
        lock (_lock)
        {
            if (_isOver && claim.Length > 0)
                return;
            output.Append(packet);
            if (claim.Length > 0)
                _evidence.Send(packetId);
        }

        output.Flush();
    }
}
