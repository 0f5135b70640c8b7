using System.Buffers.Binary;
using System.IO.Compression;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Compresses what goes over another wire (MCCP2): one zlib stream, flushed after each write.</summary>
/// <remarks>Each write is compressed by itself, and its blocks refer to nothing before it. So a client holds no window between two writes: a deflater of .NET takes about 300 KB.</remarks>
internal sealed class CompressingWire(IWire inner, CompressionLevel level) : IWire, IDisposable
{
    // The most bytes that are compressed before the result must be written: it bounds the memory.
    private const int MaxChunkBytes = 16 * 1024;

    [ThreadStatic]
    private static MemoryStream? _threadBuffer;

    // Guards the fields below against an abort, which may happen at any time.
    private readonly Lock _lock = new();
    private byte[] _compressed = [];
    private int _writtenBytes;
    private Adler32 _checksum = new();
    private bool _isStarted;
    private bool _isEnded;
    private bool _isAborted;

    public bool HasUnsent
    {
        get
        {
            lock (_lock)
                return !_isAborted && _writtenBytes < _compressed.Length;
        }
    }

    public long? AcknowledgedBytes => inner.AcknowledgedBytes;

    // The header of a zlib stream (RFC 1950), and a last block without content (RFC 1951).
    private static ReadOnlySpan<byte> Header => [0x78, 0x9C];

    private static ReadOnlySpan<byte> LastBlock => [0x03, 0x00];

    /// <summary>Ends the zlib stream; later bytes are written unchanged.</summary>
    public void EndCompression()
    {
        lock (_lock)
        {
            if (_isEnded)
                return;
            _isEnded = true;
            Span<byte> checksum = stackalloc byte[sizeof(uint)];
            BinaryPrimitives.WriteUInt32BigEndian(checksum, _checksum.Value);
            _compressed = [.. _compressed.AsSpan(_writtenBytes), .. _isStarted ? [] : Header, .. LastBlock, .. checksum];
            _writtenBytes = 0;
        }
    }

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        var taken = 0;
        while (TryWriteUnsent() && taken < bytes.Length)
        {
            if (_isEnded)
                return taken + inner.TryWrite(bytes[taken..]);
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
            await inner.WriteAsync(bytes).ConfigureAwait(false);
    }

    public async ValueTask FinishAsync()
    {
        EndCompression();
        await WriteUnsentAsync().ConfigureAwait(false);
        await inner.FinishAsync().ConfigureAwait(false);
    }

    public void Abort()
    {
        try
        {
            inner.Abort();
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
            (_isAborted, _isEnded) = (true, true);
            _compressed = [];
            _writtenBytes = 0;
        }
    }

    /// <summary>Compresses a chunk; nothing may be unsent.</summary>
    private void Compress(ReadOnlySpan<byte> bytes)
    {
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(_isAborted, this);
            var buffer = _threadBuffer ??= new MemoryStream();
            buffer.SetLength(0);
            if (!_isStarted)
                buffer.Write(Header);
            _isStarted = true;
            using (var deflate = new DeflateStream(buffer, level, leaveOpen: true))
            {
                deflate.Write(bytes);
                deflate.Flush();

                // The end that the deflater's disposal appends is not sent.
                _compressed = buffer.ToArray();
            }

            _checksum.Append(bytes);
        }
    }

    /// <returns>True when nothing is left.</returns>
    private bool TryWriteUnsent()
    {
        var unsent = Unsent();
        if (!unsent.IsEmpty)
            Written(inner.TryWrite(unsent.Span));
        return !HasUnsent;
    }

    private async ValueTask WriteUnsentAsync()
    {
        var unsent = Unsent();
        if (unsent.IsEmpty)
            return;
        await inner.WriteAsync(unsent).ConfigureAwait(false);
        Written(unsent.Length);
    }

    private ReadOnlyMemory<byte> Unsent()
    {
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(_isAborted, this);
            return _compressed.AsMemory(_writtenBytes);
        }
    }

    private void Written(int bytes)
    {
        lock (_lock)
        {
            if (_isAborted)
                return;
            _writtenBytes += bytes;
            if (_writtenBytes < _compressed.Length)
                return;
            _writtenBytes = 0;
            _compressed = [];
        }
    }

    /// <summary>The checksum at the end of a zlib stream (RFC 1950), over all that was compressed.</summary>
    private struct Adler32()
    {
        private const uint Modulus = 65521;

        // So many bytes can be added before a sum may overflow.
        private const int MaxRunBytes = 5552;

        private uint _sum = 1;
        private uint _sumOfSums;

        public readonly uint Value => (_sumOfSums << 16) | _sum;

        public void Append(ReadOnlySpan<byte> bytes)
        {
            while (!bytes.IsEmpty)
            {
                var run = bytes[..Math.Min(bytes.Length, MaxRunBytes)];
                foreach (var value in run)
                {
                    _sum += value;
                    _sumOfSums += _sum;
                }

                (_sum, _sumOfSums) = (_sum % Modulus, _sumOfSums % Modulus);
                bytes = bytes[run.Length..];
            }
        }
    }
}
