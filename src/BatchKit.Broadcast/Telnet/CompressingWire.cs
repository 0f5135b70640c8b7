using System.IO.Compression;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Compresses what goes over another wire (MCCP2): one zlib stream, flushed after each write.</summary>
internal sealed class CompressingWire : IWire, IDisposable
{
    // The most bytes that are compressed before the result must be written: it bounds the memory.
    private const int MaxChunkBytes = 16 * 1024;

    private readonly IWire _inner;

    // Guards the fields below against an abort, which may happen at any time.
    private readonly Lock _lock = new();
    private readonly MemoryStream _compressed = new();
    private readonly ZLibStream _zlib;
    private int _writtenBytes;
    private bool _isEnded;
    private bool _isAborted;

    public CompressingWire(IWire inner, CompressionLevel level)
    {
        _inner = inner;
        _zlib = new ZLibStream(_compressed, level, leaveOpen: true);
    }

    public bool HasUnsent
    {
        get
        {
            lock (_lock)
                return !_isAborted && _writtenBytes < _compressed.Length;
        }
    }

    /// <summary>Ends the zlib stream; later bytes are written unchanged.</summary>
    public void EndCompression()
    {
        lock (_lock)
        {
            if (_isEnded)
                return;
            _isEnded = true;
            _zlib.Dispose();
        }
    }

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        var taken = 0;
        while (TryWriteUnsent() && taken < bytes.Length)
        {
            if (_isEnded)
                return taken + _inner.TryWrite(bytes[taken..]);
            var chunk = Math.Min(bytes.Length - taken, MaxChunkBytes);
            Compress(bytes.Slice(taken, chunk));
            taken += chunk;
        }

        return taken;
    }

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        await WriteUnsentAsync().ConfigureAwait(false);
        while (!_isEnded && !bytes.IsEmpty)
        {
            var chunk = Math.Min(bytes.Length, MaxChunkBytes);
            Compress(bytes.Span[..chunk]);
            bytes = bytes[chunk..];
            await WriteUnsentAsync().ConfigureAwait(false);
        }

        if (!bytes.IsEmpty)
            await _inner.WriteAsync(bytes).ConfigureAwait(false);
    }

    public async ValueTask FinishAsync()
    {
        EndCompression();
        await WriteUnsentAsync().ConfigureAwait(false);
        await _inner.FinishAsync().ConfigureAwait(false);
    }

    public void Abort()
    {
        try
        {
            _inner.Abort();
        }
        finally
        {
            Dispose();
        }
    }

    public void Dispose()
    {
        lock (_lock)
        {
            _isAborted = true;
            EndCompression();
            _compressed.Dispose();
        }
    }

    private void Compress(ReadOnlySpan<byte> bytes)
    {
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(_isAborted, this);
            _zlib.Write(bytes);
            _zlib.Flush();
        }
    }

    /// <returns>True when nothing is left.</returns>
    private bool TryWriteUnsent()
    {
        var unsent = Unsent();
        if (!unsent.IsEmpty)
            Written(_inner.TryWrite(unsent.Span));
        return !HasUnsent;
    }

    private async ValueTask WriteUnsentAsync()
    {
        var unsent = Unsent();
        if (unsent.IsEmpty)
            return;
        await _inner.WriteAsync(unsent).ConfigureAwait(false);
        Written(unsent.Length);
    }

    private ReadOnlyMemory<byte> Unsent()
    {
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(_isAborted, this);
            return _compressed.GetBuffer().AsMemory(_writtenBytes, (int)_compressed.Length - _writtenBytes);
        }
    }

    private void Written(int bytes)
    {
        lock (_lock)
        {
            _writtenBytes += bytes;
            if (_isAborted || _writtenBytes < _compressed.Length)
                return;
            _writtenBytes = 0;
            _compressed.SetLength(0);
        }
    }
}
