using System.Buffers;
using BatchKit.Transports;
using MQTTnet;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>One batch of a send: its bytes, copied, for as long as a publish may read them, and what became of its messages.</summary>
internal sealed class BatchPublish
{
    private readonly byte[] _payload;

    // One for the send that starts the publishes, and one for each publish.
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

    /// <summary>True when a message has failed in a way that sending again may mend.</summary>
    public bool HasFailed
    {
        get
        {
            lock (_lock)
                return _isIncomplete;
        }
    }

    // Sent again as a whole where sending again may help: what is refused then has its answer again.
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

    /// <summary>Some of its messages are not started at all.</summary>
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
        if (IsFinal(result.ReasonCode))
            Refuse(reason);
        else
            Fail(new IOException(reason));
    }

    // What waiting may mend; any other answer of the broker is its last word.
    private static bool IsFinal(MqttClientPublishReasonCode code) =>
        code is not (MqttClientPublishReasonCode.QuotaExceeded or MqttClientPublishReasonCode.PacketIdentifierInUse);
}
