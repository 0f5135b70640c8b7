using System.Buffers;
using System.Net;
using System.Security.Cryptography.X509Certificates;
using MQTTnet.Channel;
using MQTTnet.Exceptions;

namespace BatchKit.MQTTnet;

/// <summary>Wraps one of MQTTnet's channels. A write copies its bytes and returns; one writer at a time writes all pending bytes in one call. Reads are buffered too.</summary>
internal sealed class BatchedWriteChannel : IMqttChannel, IThreadPoolWorkItem
{
    // The bytes after which the channel writes despite a hold, and the capacity above which a buffer is not kept.
    private const int MaxHeldBytes = 256 * 1024;
    private const int MaxKeptBytes = 1024 * 1024;

    // More than a thousand PUBACKs. MQTTnet reads each of them in two calls of two bytes.
    private const int ReadBytes = 8 * 1024;

    // Long enough for a live peer to read the pending bytes, short enough for a disconnect from a dead one.
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

    // Used by the writer only.
    private ArrayBufferWriter<byte> _leaving = new();

    // Used by the reader only.
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

    public EndPoint LocalEndPoint => _inner.LocalEndPoint;

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
            // The header of a packet waits for its payload.
            if (!isEndOfPacket)
                return Task.CompletedTask;
            var pendingBytes = _pending.WrittenCount;
            taken = pendingBytes < _maxPendingBytes ? Task.CompletedTask : (_taken ??= new(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
            mustWrite = !_isWriting && (pendingBytes >= Math.Min(MaxHeldBytes, _maxPendingBytes) || !WriteHold.TryHold(this));
            _isWriting |= mustWrite;
        }

        // On the thread pool, so that the same write includes what the caller writes next.
        if (mustWrite)
            ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
        return taken.IsCompleted ? taken : taken.WaitAsync(cancellationToken);
    }

    /// <summary>Writes what a hold has collected, on the caller's thread as long as writes complete synchronously.</summary>
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

    /// <summary>Runs the writer until nothing is pending. <see cref="DisconnectAsync"/> awaits it, and <see cref="Dispose"/> ends it.</summary>
    public void Execute() => _ = WriteAllAsync();

    public async Task DisconnectAsync(CancellationToken cancellationToken)
    {
        StartWriting();
        try
        {
            await WaitUntilIdle().WaitAsync(FlushTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            // The peer does not read, or the caller does not wait. The pending bytes are lost with the connection, as those in the socket's buffer are.
        }

        // The connection must end for a cancelled caller too, but MQTTnet's channels do not disconnect when the token is cancelled.
        if (cancellationToken.IsCancellationRequested)
            _inner.Dispose();
        else
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
            // No one awaits this write. Later writes throw, and the reader finds the connection closed.
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

/// <summary>While a hold is open on a thread, that thread's writes to a <see cref="BatchedWriteChannel"/> are held back. The end of the hold writes them on the same thread.</summary>
internal readonly struct WriteHold : IDisposable
{
    [ThreadStatic]
    private static int _depth;

    // A send usually writes to one channel; writes to other channels are not held back.
    [ThreadStatic]
    private static BatchedWriteChannel? _held;

    public static WriteHold Begin()
    {
        _depth++;
        return default;
    }

    /// <summary>True when the end of this thread's hold will write the channel's bytes.</summary>
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
