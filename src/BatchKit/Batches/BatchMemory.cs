using System.Buffers;
using System.Runtime.CompilerServices;

namespace BatchKit.Batches;

/// <summary>The bytes, ends and headers of one batch: small arrays of its own, and rented ones once it outgrows them.</summary>
internal struct BatchMemory
{
    // Enough for a handle that sends a line now and then. Measured: ArrayPool alone costs 408 B a handle with 10,000 batches alive.
    private const int OwnBytes = 256;
    private const int OwnMessages = 16;

    // The pool would never free larger arrays, so these are allocated.
    private const int LargestRentedBytes = 1 << 20;

    private readonly byte[] _ownBytes;
    private readonly int[] _ownEnds;

    public BatchMemory()
    {
        Bytes = _ownBytes = new byte[OwnBytes];
        Ends = _ownEnds = new int[OwnMessages];
    }

    public byte[] Bytes { get; private set; }

    public int[] Ends { get; private set; }

    public MessageHeader?[]? Headers { get; private set; }

    /// <summary>True when the last message has an equal header. Most writers pass the same object again.</summary>
    public readonly bool EndsWith(MessageHeader header) => Headers?[Count - 1] is { } last && (ReferenceEquals(last, header) || last.Equals(header));

    public int UsedBytes { get; private set; }

    public int Count { get; private set; }

    /// <returns>How many bytes the payload took; negative when its encoder failed, and nothing was added.</returns>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int Append<TPayload>(scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var start = UsedBytes;
        if (Bytes.Length - start < payload.MaxBytes)
            GrowBytes(payload.MaxBytes);
        if (Ends.Length == Count)
            GrowEnds();
        var written = payload.WriteTo(Bytes.AsSpan(start, payload.MaxBytes));
        if (written < 0)
            return written;
        UsedBytes = Ends[Count] = start + written;
        if (header is not null || Headers is not null)
            SetHeader(header);
        Count++;
        return written;
    }

    /// <returns>True when it had outgrown its own arrays.</returns>
    public bool Return()
    {
        var isOutgrown = Bytes != _ownBytes || Ends != _ownEnds || Headers is not null;
        if (isOutgrown)
        {
            ReturnBytes();
            ReturnEnds();
            ReturnHeaders();
        }

        UsedBytes = Count = 0;
        return isOutgrown;
    }

    // Doubles, so that a batch of any size copies each byte about once. Only a message that is large alone gets an array of its exact size.
    private void GrowBytes(int payloadBytes)
    {
        var needed = checked(UsedBytes + payloadBytes);
        var size = UsedBytes == 0 ? needed : (int)Math.Max(needed, Math.Min(Bytes.Length * 2L, Array.MaxLength));
        var grown = size > LargestRentedBytes ? GC.AllocateUninitializedArray<byte>(size) : ArrayPool<byte>.Shared.Rent(size);
        Bytes.AsSpan(0, UsedBytes).CopyTo(grown);
        ReturnBytes();
        Bytes = grown;
    }

    private void GrowEnds()
    {
        var grown = ArrayPool<int>.Shared.Rent(Count * 2);
        Ends.AsSpan(0, Count).CopyTo(grown);
        ReturnEnds();
        Ends = grown;
    }

    private void SetHeader(MessageHeader? header)
    {
        if (Headers is null || Headers.Length == Count)
        {
            var grown = ArrayPool<MessageHeader?>.Shared.Rent(Math.Max(OwnMessages, Count * 2));
            Array.Clear(grown);
            Headers?.AsSpan(0, Count).CopyTo(grown);
            ReturnHeaders();
            Headers = grown;
        }

        Headers[Count] = header;
    }

    private void ReturnBytes()
    {
        if (Bytes == _ownBytes)
            return;
        if (Bytes.Length <= LargestRentedBytes)
            ArrayPool<byte>.Shared.Return(Bytes);
        Bytes = _ownBytes;
    }

    private void ReturnEnds()
    {
        if (Ends == _ownEnds)
            return;
        ArrayPool<int>.Shared.Return(Ends);
        Ends = _ownEnds;
    }

    private void ReturnHeaders()
    {
        if (Headers is null)
            return;
        ArrayPool<MessageHeader?>.Shared.Return(Headers, clearArray: true);
        Headers = null;
    }
}

/// <summary>A message's bytes on their way into a batch: copied, or encoded in place.</summary>
internal interface IMessagePayload
{
    /// <summary>The most bytes that it takes.</summary>
    int MaxBytes { get; }

    /// <returns>How many bytes it took; negative when it could not be encoded.</returns>
    int WriteTo(Span<byte> destination);

    /// <summary>Throws what its encoder threw.</summary>
    void ThrowIfFailed();
}

/// <summary>Bytes that are copied.</summary>
internal readonly ref struct CopiedPayload(ReadOnlySpan<byte> bytes) : IMessagePayload
{
    private readonly ReadOnlySpan<byte> _bytes = bytes;

    public int MaxBytes => _bytes.Length;

    public int WriteTo(Span<byte> destination)
    {
        _bytes.CopyTo(destination);
        return _bytes.Length;
    }

    public void ThrowIfFailed()
    {
    }
}
