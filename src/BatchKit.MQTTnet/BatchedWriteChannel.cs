using System.Buffers;
using System.Net;
using System.Security.Cryptography.X509Certificates;
using MQTTnet.Channel;
using MQTTnet.Exceptions;

namespace BatchKit.MQTTnet;

/// <summary>Wraps one of MQTTnet's channels: a write copies its bytes and is done, one writer at a time takes all that waits in one write, and reads are gathered too.</summary>
internal sealed partial class BatchedWriteChannel : IMqttChannel, IThreadPoolWorkItem
{
    // What a hold may gather before it is written anyway, and what may wait before a write has to.
    private const int MaxHeldBytes = 256 * 1024;
    private const int MaxKeptBytes = 1024 * 1024;

    // A thousand PUBACKs and more; MQTTnet reads each in two bytes and two again.
    private const int ReadBytes = 8 * 1024;

    // Long for a live peer's socket to take what waits, short for whoever disconnects from a dead one.
    private static readonly TimeSpan FlushTimeout = TimeSpan.FromSeconds(1);

    private readonly IMqttChannel _inner;
    private readonly TimeProvider _timeProvider;
    private readonly int _maxPendingBytes;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private ArrayBufferWriter<byte> _pending = new();
    private bool _isWriting;
    private Exception? _error;
    private TaskCompletionSource? _taken;
    private TaskCompletionSource? _idle;

    // The writer's own.
    private ArrayBufferWriter<byte> _leaving = new();

    // The reader's own.
    private readonly byte[] _read = new byte[ReadBytes];
    private int _readStart;
    private int _readEnd;

    public BatchedWriteChannel(IMqttChannel inner, int maxPendingBytes, TimeProvider timeProvider)
    {
        _inner = inner;
        _maxPendingBytes = maxPendingBytes;
        _timeProvider = timeProvider;
    }

    public X509Certificate2 ClientCertificate => _inner.ClientCertificate;

    public EndPoint RemoteEndPoint => _inner.RemoteEndPoint;

    public bool IsSecureConnection => _inner.IsSecureConnection;

    public Task ConnectAsync(CancellationToken cancellationToken) => _inner.ConnectAsync(cancellationToken);

    public Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        if (_readStart < _readEnd)
            return Task.FromResult(TakeRead(buffer.AsSpan(offset, count)));
        return count >= ReadBytes ? _inner.ReadAsync(buffer, offset, count, cancellationToken) : ReadSlowAsync(buffer.AsMemory(offset, count), cancellationToken);
    }

    public Task WriteAsync(ReadOnlySequence<byte> buffer, bool isEndOfPacket, CancellationToken cancellationToken)
    {
        Task taken;
        bool mustWrite;
        lock (_lock)
        {
            if (_error is not null)
                throw new MqttCommunicationException("The connection is closed.", _error);
            foreach (var segment in buffer)
                _pending.Write(segment.Span);
            // The head of a packet waits for its payload.
            if (!isEndOfPacket)
                return Task.CompletedTask;
            var pendingBytes = _pending.WrittenCount;
            taken = pendingBytes < _maxPendingBytes ? Task.CompletedTask : (_taken ??= new(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
            mustWrite = !_isWriting && (pendingBytes >= Math.Min(MaxHeldBytes, _maxPendingBytes) || !WriteHold.TryHold(this));
            _isWriting |= mustWrite;
        }

        // On the pool, so that what its caller writes next comes along.
        if (mustWrite)
            ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
        return taken.IsCompleted ? taken : taken.WaitAsync(cancellationToken);
    }

    /// <summary>Writes what a hold has gathered, on the caller's thread as far as that does not wait.</summary>
    public void StartWriting()
    {
        lock (_lock)
        {
            if (_isWriting || _pending.WrittenCount == 0)
                return;
            _isWriting = true;
        }

        Execute();
    }

    /// <summary>The writer. It owns itself until nothing waits; <see cref="DisconnectAsync"/> awaits that, and <see cref="Dispose"/> ends it.</summary>
    public void Execute() => _ = WriteAllAsync();

    public async Task DisconnectAsync(CancellationToken cancellationToken)
    {
        StartWriting();
        try
        {
            await WaitUntilIdle().WaitAsync(FlushTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // The peer does not read: what it has not taken is lost with the connection, as in the socket's own buffer.
        }

        await _inner.DisconnectAsync(cancellationToken).ConfigureAwait(false);
    }

    public void Dispose()
    {
        Fail(new ObjectDisposedException(nameof(BatchedWriteChannel)));
        _inner.Dispose();
    }

    private async Task<int> ReadSlowAsync(Memory<byte> buffer, CancellationToken cancellationToken)
    {
        _readStart = _readEnd = 0;
        _readEnd = await _inner.ReadAsync(_read, 0, ReadBytes, cancellationToken).ConfigureAwait(false);
        return TakeRead(buffer.Span);
    }

    private int TakeRead(Span<byte> buffer)
    {
        var count = Math.Min(buffer.Length, _readEnd - _readStart);
        _read.AsSpan(_readStart, count).CopyTo(buffer);
        _readStart += count;
        return count;
    }

    private async Task WriteAllAsync()
    {
        try
        {
            while (TakePending())
            {
                await _inner.WriteAsync(new ReadOnlySequence<byte>(_leaving.WrittenMemory), isEndOfPacket: true, CancellationToken.None).ConfigureAwait(false);
                if (_leaving.Capacity > MaxKeptBytes)
                    _leaving = new ArrayBufferWriter<byte>();
                else
                    _leaving.ResetWrittenCount();
            }
        }
        catch (Exception exception)
        {
            // Nobody awaits this write: later ones throw, and the reader finds the connection closed.
            Fail(exception);
            _inner.Dispose();
        }
    }

    private bool TakePending()
    {
        TaskCompletionSource? taken;
        TaskCompletionSource? idle = null;
        bool hasTaken;
        lock (_lock)
        {
            hasTaken = _pending.WrittenCount > 0 && _error is null;
            (taken, _taken) = (_taken, null);
            if (hasTaken)
            {
                (_pending, _leaving) = (_leaving, _pending);
            }
            else
            {
                _isWriting = false;
                (idle, _idle) = (_idle, null);
            }
        }

        taken?.TrySetResult();
        idle?.TrySetResult();
        return hasTaken;
    }

    private Task WaitUntilIdle()
    {
        lock (_lock)
            return !_isWriting || _error is not null ? Task.CompletedTask : (_idle ??= new(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
    }

    private void Fail(Exception error)
    {
        TaskCompletionSource? taken;
        TaskCompletionSource? idle;
        lock (_lock)
        {
            _error ??= error;
            (taken, _taken) = (_taken, null);
            (idle, _idle) = (_idle, null);
        }

        taken?.TrySetException(new MqttCommunicationException("The connection is closed.", error));
        idle?.TrySetResult();
    }
}

/// <summary>While one is open on a thread, what that thread writes to channels of batched writes is held back; its end writes it, on that thread.</summary>
internal readonly struct WriteHold : IDisposable
{
    [ThreadStatic]
    private static int _depth;

    // A send has one client, so mostly one channel; what goes to another meanwhile is written as without a hold.
    [ThreadStatic]
    private static BatchedWriteChannel? _held;

    public static WriteHold Begin()
    {
        _depth++;
        return default;
    }

    /// <summary>True when the channel's bytes will be written at the end of this thread's hold.</summary>
    public static bool TryHold(BatchedWriteChannel channel)
    {
        if (_depth == 0)
            return false;
        _held ??= channel;
        return _held == channel;
    }

    public void Dispose()
    {
        if (--_depth > 0)
            return;
        var held = _held;
        _held = null;
        held?.StartWriting();
    }
}
