using System.Buffers;

namespace BatchKit.Mqtt.Connections;

/// <summary>Writes a connection's packets: appended ones (pings, acknowledgements), then those of the source, all in one write. One write at a time.</summary>
/// <remarks><see cref="Flush"/> writes on the caller's thread as long as writes complete synchronously, and otherwise continues on the thread pool.</remarks>
internal sealed class PacketOutput : IThreadPoolWorkItem, IDisposable
{
    // After this many consecutive writes the thread pool continues, because the caller has other work: the reader, for example, must read.
    private const int MaxWritesPerCaller = 4;

    // Twice the acknowledgements of all packet ids. Only a broker that violates the Receive Maximum and reads nothing reaches this limit.
    private const int MaxAppendedBytes = 2 * PubackBytesOfAllIds;
    private const int PubackBytesOfAllIds = 4 * (ushort.MaxValue + 1);

    private readonly Stream _stream;
    private readonly BlockingStream? _blocking;
    private readonly IPacketSource? _source;
    private readonly TimeProvider _timeProvider;
    private readonly Action _resume;
    private readonly TaskCompletionSource _failed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Guards the fields of this group.
    private readonly Lock _lock = new();
    private byte[] _appended = new byte[256];
    private int _appendedLength;
    private bool _isDirty;
    private bool _isWriting;
    private bool _isClosed;

    // Used only by the thread that has set _isWriting. After a failure it stays set.
    private readonly PacketBuffer _buffer = new();
    private bool _asksSource;
    private ValueTask _write;

    private long _lastWrite;

    private enum WriteStep
    {
        Collect,
        Send,
        Complete,
    }

    /// <summary>Creates an output for a stream, which the connection owns.</summary>
    public PacketOutput(Stream stream, IPacketSource? source, TimeProvider? timeProvider = null)
    {
        _stream = stream;
        _blocking = stream as BlockingStream;
        _source = source;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _lastWrite = _timeProvider.GetTimestamp();
        _resume = () => Write(WriteStep.Complete);
    }

    /// <summary>Completes with the error that ended writing. Never succeeds.</summary>
    public Task Failed => _failed.Task;

    /// <summary>The timestamp of the last write's start.</summary>
    public long LastWrite => Interlocked.Read(ref _lastWrite);

    /// <summary>Queues a complete small packet for the next write, before the packets of the source.</summary>
    public void Append(ReadOnlySpan<byte> packet)
    {
        lock (_lock)
        {
            if (_isClosed)
                return;
            if (_appendedLength == 0 || _appendedLength + packet.Length <= MaxAppendedBytes)
            {
                AppendLocked(packet);
                return;
            }
        }

        Fail(new IOException($"The broker does not read: {MaxAppendedBytes} bytes of acknowledgements are pending."));
    }

    /// <summary>Writes everything that is pending. If a write is under way, its thread continues with the rest.</summary>
    public void Flush()
    {
        lock (_lock)
        {
            if (_isClosed)
                return;
            _isDirty = true;
            if (_isWriting)
                return;
            _isWriting = true;
        }

        Write(WriteStep.Collect);
    }

    /// <summary>Accepts nothing more, and completes when the write under way has ended. The source is not called afterwards.</summary>
    /// <param name="last">A last packet to write after the appended ones; empty for none.</param>
    public Task CloseAsync(ReadOnlySpan<byte> last = default)
    {
        lock (_lock)
        {
            if (_isClosed)
                return _ended.Task;
            AppendLocked(last);
            _isClosed = true;
            if (_isWriting)
                return _ended.Task;
            _isWriting = true;
        }

        Write(WriteStep.Collect);
        return _ended.Task;
    }

    /// <summary>Returns the memory. Call it after <see cref="CloseAsync"/> has completed.</summary>
    public void Dispose() => _buffer.Dispose();

    void IThreadPoolWorkItem.Execute() => Write(WriteStep.Send);

    private void AppendLocked(ReadOnlySpan<byte> packet)
    {
        if (_appended.Length - _appendedLength < packet.Length)
            Array.Resize(ref _appended, Math.Max(2 * _appended.Length, _appendedLength + packet.Length));
        packet.CopyTo(_appended.AsSpan(_appendedLength));
        _appendedLength += packet.Length;
    }

    private void Write(WriteStep next)
    {
        try
        {
            if (next == WriteStep.Complete)
                CompleteWrite();
            if (next == WriteStep.Send && !TrySend())
                return;
            for (var writes = 0; TryCollect(); writes++)
            {
                // Where the write would block, a thread of the pool does it, and the broker is read meanwhile.
                if (writes == MaxWritesPerCaller || _blocking?.CanWriteNow(_buffer.Bytes.Length) == false)
                {
                    ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
                    return;
                }

                if (!TrySend())
                    return;
            }
        }
        catch (Exception exception)
        {
            Fail(exception);
            End();
        }
    }

    // False when nothing is pending; then this thread is no longer the writer.
    private bool TryCollect()
    {
        while (true)
        {
            lock (_lock)
            {
                TakeAppended();
                _isDirty = false;
                _asksSource = !_isClosed && _source is not null;
            }

            if (_asksSource)
                _source!.Fill(_buffer);
            if (!_buffer.IsEmpty)
                return true;
            lock (_lock)
            {
                if (_appendedLength > 0 || (_isDirty && !_isClosed))
                    continue;
                _isWriting = false;
                if (!_isClosed)
                    return false;
            }

            End();
            return false;
        }
    }

    private void TakeAppended()
    {
        if (_appendedLength == 0)
            return;
        _buffer.TryReserve(_appendedLength, out var memory);
        _appended.AsSpan(0, _appendedLength).CopyTo(memory);
        _buffer.Advance(_appendedLength);
        _appendedLength = 0;
    }

    // False when the write does not complete synchronously; its completion then continues.
    private bool TrySend()
    {
        Interlocked.Exchange(ref _lastWrite, _timeProvider.GetTimestamp());
        _write = _stream.WriteAsync(_buffer.Bytes);
        if (!_write.IsCompleted)
        {
            _write.ConfigureAwait(false).GetAwaiter().UnsafeOnCompleted(_resume);
            return false;
        }

        CompleteWrite();
        return true;
    }

    private void CompleteWrite()
    {
        // It is always completed here; taking the result lets the stream reuse its operation.
        var write = _write;
        if (write.IsCompleted)
            write.GetAwaiter().GetResult();
        _buffer.Clear();
        if (_asksSource)
            _source!.CompleteWrite();
    }

    private void Fail(Exception exception)
    {
        // Observed, so that an error that no one awaits is not reported as unobserved.
        if (_failed.TrySetException(exception))
            _ = _failed.Task.Exception;
    }

    private void End()
    {
        lock (_lock)
            _isClosed = true;
        _ended.TrySetResult();
    }
}

/// <summary>Provides packets whenever a connection can write some. Called by one thread at a time.</summary>
internal interface IPacketSource
{
    /// <summary>Writes as many complete packets as there are and as fit.</summary>
    /// <param name="buffer">The target. Ask for more memory than it has left only when it is empty.</param>
    void Fill(PacketBuffer buffer);

    /// <summary>Called when the packets of the last <see cref="Fill"/> have been written to the network.</summary>
    void CompleteWrite();
}

/// <summary>Collects packets for one write. Owned by a connection's output; one thread at a time.</summary>
internal sealed class PacketBuffer : IDisposable
{
    // A larger buffer brings no gain on loopback, where a write of 64 KiB is one system call. The memory of a larger packet is not kept.
    private const int KeptBytes = 64 * 1024;

    private byte[] _array = ArrayPool<byte>.Shared.Rent(KeptBytes);
    private int _length;

    public bool IsEmpty => _length == 0;

    public ReadOnlyMemory<byte> Bytes => _array.AsMemory(0, _length);

    /// <summary>Gets memory for a packet of a size; an empty buffer grows for a large packet.</summary>
    /// <returns>False when the buffer must be written first.</returns>
    public bool TryReserve(int bytes, out Span<byte> memory)
    {
        if (_array.Length - _length < bytes)
        {
            if (_length > 0)
            {
                memory = default;
                return false;
            }

            ArrayPool<byte>.Shared.Return(_array);
            _array = ArrayPool<byte>.Shared.Rent(bytes);
        }

        memory = _array.AsSpan(_length, bytes);
        return true;
    }

    public void Advance(int bytes) => _length += bytes;

    public void Clear()
    {
        _length = 0;
        if (_array.Length <= 2 * KeptBytes)
            return;
        ArrayPool<byte>.Shared.Return(_array);
        _array = ArrayPool<byte>.Shared.Rent(KeptBytes);
    }

    public void Dispose()
    {
        ArrayPool<byte>.Shared.Return(_array);
        _array = [];
        _length = 0;
    }
}
