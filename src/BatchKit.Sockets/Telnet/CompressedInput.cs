using System.Buffers;
using System.IO.Compression;
using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Inflates what a client compresses (MCCP3): one zlib stream (RFC 1950) at a time, in fragments of any size, and finds its end.</summary>
internal sealed class CompressedInput : IDisposable
{
    // As much as one read of plain input: limits count it before more is inflated, because a few bytes may be inflated to a thousand times their size.
    private const int MaxReadBytes = ReceiveBuffer.BusyBytes;

    private const int ChunkBytes = 4096;

    private readonly Source _source = new();
    private ZLibStream? _inflater;

    // Rented while something inflated is unread.
    private byte[] _chunk = [];
    private int _inflatedBytes;
    private int _takenBytes;

    /// <summary>True from the start of a zlib stream to its end.</summary>
    public bool IsActive => _inflater is not null;

    /// <summary>What was inflated and not read yet.</summary>
    public ReadOnlyMemory<byte> Unread { get; set; }

    /// <summary>How many bytes were inflated since <see cref="BeginRead"/>, beyond those that were taken.</summary>
    public int AddedBytes => Math.Max(0, _inflatedBytes - _takenBytes);

    /// <summary>True when as much was inflated since <see cref="BeginRead"/> as one read may.</summary>
    public bool IsFull => _inflatedBytes >= MaxReadBytes;

    /// <summary>Begins a zlib stream, unless one is active.</summary>
    public void Start() => _inflater ??= new ZLibStream(_source, CompressionMode.Decompress, leaveOpen: true);

    public void BeginRead() => (_inflatedBytes, _takenBytes) = (0, 0);

    /// <summary>Inflates more, if all that was inflated is read.</summary>
    /// <param name="compressed">What the client sent. It gets shorter by what belongs to the zlib stream.</param>
    /// <returns>False when more bytes are needed, or one read may inflate no more. True when there is something to read, or the zlib stream has ended.</returns>
    /// <exception cref="InvalidDataException">The bytes are no zlib stream.</exception>
    public bool TryInflate(ref ReadOnlyMemory<byte> compressed)
    {
        if (!Unread.IsEmpty)
            return true;
        if (IsFull)
            return false;
        if (_chunk.Length == 0)
            _chunk = ArrayPool<byte>.Shared.Rent(ChunkBytes);
        var before = compressed.Length;
        var inflated = Read(ref compressed);
        _takenBytes += before - compressed.Length;
        _inflatedBytes += inflated;
        Unread = _chunk.AsMemory(0, inflated);
        if (inflated > 0)
            return true;

        // The inflater takes nothing more once its stream has ended.
        var hasEnded = !compressed.IsEmpty;
        if (hasEnded)
            End();
        else
            ReturnChunk();
        return hasEnded;
    }

    public void Dispose()
    {
        End();
        _source.Dispose();
    }

    private void End()
    {
        _inflater?.Dispose();
        _inflater = null;
        Unread = default;
        ReturnChunk();
    }

    private int Read(ref ReadOnlyMemory<byte> compressed)
    {
        _source.Begin(compressed);
        try
        {
            return _inflater!.Read(_chunk);
        }
        catch (InvalidDataException) when (_source.IsExhausted)
        {
            // With the switch System.IO.Compression.UseStrictValidation the framework takes a source that has nothing yet for a stream without its end.
            return 0;
        }
        catch (IOException)
        {
            // A stream that needs a dictionary of its own (RFC 1950, FDICT).
            throw new InvalidDataException();
        }
        finally
        {
            compressed = _source.Rest;
        }
    }

    private void ReturnChunk()
    {
        if (_chunk.Length > 0)
            ArrayPool<byte>.Shared.Return(_chunk);
        _chunk = [];
    }

    /// <summary>Hands out bytes to the framework's inflater, which pulls: it returns what it has when its source has nothing yet, and goes on at the next read.</summary>
    /// <remarks>One byte at a time, which costs 0.4 µs, because the inflater keeps what it takes from behind the end of the zlib stream.</remarks>
    private sealed class Source : Stream
    {
        public ReadOnlyMemory<byte> Rest { get; private set; }

        /// <summary>True when more bytes were wanted than there are.</summary>
        public bool IsExhausted { get; private set; }

        public override bool CanRead => true;

        public override bool CanSeek => false;

        public override bool CanWrite => false;

        public override long Length => throw new NotSupportedException();

        public override long Position
        {
            get => throw new NotSupportedException();
            set => throw new NotSupportedException();
        }

        public void Begin(ReadOnlyMemory<byte> bytes) => (Rest, IsExhausted) = (bytes, false);

        public override int Read(byte[] buffer, int offset, int count) => Read(buffer.AsSpan(offset, count));

        public override int Read(Span<byte> buffer)
        {
            IsExhausted = Rest.IsEmpty;
            if (IsExhausted || buffer.IsEmpty)
                return 0;
            buffer[0] = Rest.Span[0];
            Rest = Rest[1..];
            return 1;
        }

        public override void Flush() => throw new NotSupportedException();

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
    }
}
