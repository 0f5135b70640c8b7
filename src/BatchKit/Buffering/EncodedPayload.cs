using System.Buffers;
using System.Runtime.ExceptionServices;
using BatchKit.Batches;

namespace BatchKit.Buffering;

/// <summary>A message that its writer encodes, straight into the batch where it can.</summary>
internal ref struct EncodedPayload<TState>(int maxBytes, TState state, MessageEncoder<TState> encode) : IMessagePayload
    where TState : allows ref struct
{
    private readonly TState _state = state;
    private Exception? _failure;

    // Rented. What a write that throws keeps is left to the collector.
    private byte[]? _encoded;
    private int _written;

    public static bool IsLatest => false;

    public static bool MayFail => true;

    public readonly long Key => 0;

    public static EncodedPayload<TState> Create(int maxBytes, TState state, MessageEncoder<TState> encode)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(maxBytes);
        ArgumentNullException.ThrowIfNull(encode);
        return new EncodedPayload<TState>(maxBytes, state, encode);
    }

    public readonly int MaxBytes => IsEncoded ? _written : maxBytes;

    public readonly bool IsEncoded => _encoded is not null;

    public bool TryEncode()
    {
        var memory = ArrayPool<byte>.Shared.Rent(maxBytes);
        _written = Encode(memory.AsSpan(0, maxBytes));
        _encoded = _written < 0 ? null : memory;
        return IsEncoded;
    }

    public void Release()
    {
        if (_encoded is null)
            return;
        ArrayPool<byte>.Shared.Return(_encoded);
        _encoded = null;
    }

    public int WriteTo(Span<byte> destination)
    {
        if (_encoded is null)
            return Encode(destination);
        _encoded.AsSpan(0, _written).CopyTo(destination);
        return _written;
    }

    public readonly void ThrowIfFailed()
    {
        if (_failure is not null)
            ExceptionDispatchInfo.Throw(_failure);
    }

    private int Encode(Span<byte> destination)
    {
        HandleTable.BeginEncoding();
        try
        {
            var written = encode(destination, _state);
            if ((uint)written <= (uint)destination.Length)
                return written;
            _failure = new InvalidOperationException($"The encoder says that it wrote {written} bytes; it was given {destination.Length}. Return the number of bytes that it wrote, from 0 to the length of the memory.");
        }
        catch (Exception failure)
        {
            _failure = failure;
        }
        finally
        {
            EncoderGuard.End();
        }

        return -1;
    }
}
