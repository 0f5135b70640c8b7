using System.Buffers;
using System.Collections.Immutable;
using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>One send: starts its publishes in order, as many as fit in the window, and collects their results.</summary>
internal sealed class PublishSend(PublishParts parts, ReadOnlyMemory<MessageBatch> batches)
{
    private readonly BatchPublish?[] _publishes = new BatchPublish?[batches.Length];
    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly int _connection = parts.Watch.Connection;

    // The next message to start; used only by the thread that starts publishes.
    private int _batch;
    private int _message;

    // One for the thread that starts publishes, and one for each publish that has not ended.
    private int _open = 1;

    private bool _hasFailed;

    // MQTT before version 5 has no properties, and the client throws if one is set.
    private bool SendsHeaders => parts.Client.Options?.ProtocolVersion == MqttProtocolVersion.V500;

    /// <summary>Completes when every publish that was started has ended.</summary>
    public Task Ended => _ended.Task;

    /// <summary>Starts publishes until the window is full.</summary>
    /// <returns>True when there is nothing more to start.</returns>
    public bool StartUntilFull()
    {
        // The end of the hold writes everything that this thread has written to a batched channel.
        using var hold = WriteHold.Begin();
        while (_batch < batches.Length)
        {
            if (!StartBatch(batches.Span[_batch]))
                return false;
            (_batch, _message) = (_batch + 1, 0);
        }

        EndOne();
        return true;
    }

    /// <summary>Gives up the messages that were not started, after a cancellation. Nothing reads the batches afterwards.</summary>
    public void Abandon()
    {
        _publishes[_batch]?.Stop();
        _publishes[_batch]?.Release();
        EndOne();
    }

    /// <summary>The exception with the outcome of each batch; null when all are acknowledged.</summary>
    public Exception? ToException(Exception? cancellation)
    {
        var outcomes = Array.ConvertAll(_publishes, static publish => publish?.Outcome ?? BatchOutcome.Unacknowledged);
        if (Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Acknowledged))
            return null;
        var error = cancellation ?? _publishes.Select(static publish => publish?.Error).FirstOrDefault(static error => error is not null);
        if (Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Unacknowledged))
            return cancellation ?? new IOException(error is null ? "The MQTT client reconnected during the send." : $"The MQTT client could not publish: {FailureText.MessageOf(error)}", error);
        var refusal = _publishes.Select(static publish => publish?.Refusal).FirstOrDefault(static refusal => refusal is not null);
        return new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), refusal ?? (error is null ? "Not every message was acknowledged." : FailureText.MessageOf(error)), error);
    }

    private bool StartBatch(MessageBatch batch)
    {
        var publish = _publishes[_batch] ??= Open(batch);
        // After a failure or a reconnect, later messages would overtake the failed one.
        if (MustStop())
            publish.Stop();
        else if (!publish.IsUnfit && !StartMessages(batch, publish))
            return false;
        publish.Release();
        return true;
    }

    private bool StartMessages(MessageBatch batch, BatchPublish publish)
    {
        for (; _message < batch.Count; _message++)
        {
            var message = batch[_message];
            if (PublishSettings.IsControl(message.Header))
                continue;
            if (parts.FindFault(batch.Handle.Name!, message, SendsHeaders) is { } fault)
            {
                publish.Refuse(fault);
                continue;
            }

            if (!parts.Window.TryEnter())
                return false;
            if (MustStop())
            {
                parts.Window.Leave();
                publish.Stop();
                return true;
            }

            Start(batch, publish);
        }

        return true;
    }

    private BatchPublish Open(MessageBatch batch)
    {
        var fault = MessageTexts.FindFault(batch.Handle, parts.AllowSystemTopics);
        var publish = new BatchPublish(batch) { IsUnfit = fault is not null };
        if (fault is not null)
            publish.Refuse(fault);
        return publish;
    }

    private void Start(MessageBatch batch, BatchPublish publish)
    {
        var start = _message == 0 ? 0 : batch.MessageEnds[_message - 1];
        var payload = publish.Payload[start..batch.MessageEnds[_message]];
        var header = SendsHeaders && batch.HasHeaders ? batch.Headers[_message] : null;
        var properties = PublishSettings.HasProperties(header) ? parts.Lists.Rent() : null;
        publish.Hold();
        Interlocked.Increment(ref _open);
        // MQTT 3.1.1 has the retain flag too.
        var settings = batch.HasHeaders && batch.Headers[_message] is { IsRetained: true } ? parts.Settings with { Retain = true } : parts.Settings;
        _ = PublishAsync(publish, settings.CreateMessage(batch.Handle.Name!, payload, header, properties), properties);
    }

    // The send awaits the count of open publishes. A publish is never cancelled: a cancelled write may stop inside a packet.
    private async Task PublishAsync(BatchPublish publish, MqttApplicationMessage message, List<MqttUserProperty>? properties)
    {
        try
        {
            publish.Settle(await parts.Client.PublishAsync(message, CancellationToken.None).ConfigureAwait(false));
        }
        catch (Exception exception)
        {
            publish.Fail(exception);
            Volatile.Write(ref _hasFailed, true);
        }

        if (properties is not null)
            parts.Lists.Return(properties);
        publish.Release();
        parts.Window.Leave();
        EndOne();
    }

    private bool MustStop() => Volatile.Read(ref _hasFailed) || parts.Watch.Connection != _connection;

    private void EndOne()
    {
        if (Interlocked.Decrement(ref _open) == 0)
            _ended.SetResult();
    }
}

/// <summary>One batch of a send: a copy of its bytes, kept as long as a publish may read them, and the result of its messages.</summary>
internal sealed class BatchPublish
{
    private readonly byte[] _payload;

    // One for the send that starts the publishes, and one for each publish that has not ended.
    private int _holders = 1;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private string? _refusal;
    private Exception? _error;
    private bool _isIncomplete;

    public BatchPublish(MessageBatch batch)
    {
        _payload = ArrayPool<byte>.Shared.Rent(batch.Payload.Length);
        batch.Payload.CopyTo(_payload);
        Payload = _payload.AsMemory(0, batch.Payload.Length);
    }

    public ReadOnlyMemory<byte> Payload { get; }

    /// <summary>True when none of its messages can be published. A message that is refused alone holds back no other.</summary>
    public bool IsUnfit { get; init; }

    public string? Refusal
    {
        get
        {
            lock (_lock)
                return _refusal;
        }
    }

    public Exception? Error
    {
        get
        {
            lock (_lock)
                return _error;
        }
    }

    /// <summary>True when a message has failed and a retry may succeed.</summary>
    public bool HasFailed
    {
        get
        {
            lock (_lock)
                return _isIncomplete;
        }
    }

    // If a retry may succeed, the batch is sent again as a whole; a refused message is then refused again.
    public BatchOutcome Outcome
    {
        get
        {
            lock (_lock)
            {
                if (_isIncomplete || Volatile.Read(ref _holders) > 0)
                    return BatchOutcome.Unacknowledged;
                return _refusal is null ? BatchOutcome.Acknowledged : BatchOutcome.Refused;
            }
        }
    }

    public void Hold() => Interlocked.Increment(ref _holders);

    public void Release()
    {
        if (Interlocked.Decrement(ref _holders) == 0)
            ArrayPool<byte>.Shared.Return(_payload);
    }

    public void Refuse(string reason)
    {
        lock (_lock)
            _refusal ??= reason;
    }

    public void Fail(Exception error)
    {
        lock (_lock)
        {
            _isIncomplete = true;
            _error ??= error;
        }
    }

    /// <summary>Records that some messages were not started.</summary>
    public void Stop()
    {
        lock (_lock)
            _isIncomplete = true;
    }

    public void Settle(MqttClientPublishResult result)
    {
        if (result.IsSuccess)
            return;
        var reason = $"The broker answered {result.ReasonCode} ({(int)result.ReasonCode}){(string.IsNullOrEmpty(result.ReasonString) ? "" : $": {result.ReasonString}")}.";
        if (ReasonTable.IsTransient((int)result.ReasonCode))
            Fail(new IOException(reason));
        else
            Refuse(reason);
    }
}
