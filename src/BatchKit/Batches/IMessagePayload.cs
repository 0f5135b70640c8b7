using BatchKit.Transports;

namespace BatchKit.Batches;

/// <summary>A message's bytes on their way into a batch: copied, or encoded in place.</summary>
internal interface IMessagePayload
{
    /// <summary>True when it replaces what waits with its key. Constant for each type, so that other writes don't even test it.</summary>
    static abstract bool IsLatest { get; }

    /// <summary>False when it takes exactly its size, and can't fail.</summary>
    static abstract bool MayFail { get; }

    /// <summary>The key of a latest value; zero for all others.</summary>
    long Key { get; }

    /// <summary>The most bytes that it takes.</summary>
    int MaxBytes { get; }

    /// <summary>True when its bytes are there: nothing foreign runs to write them.</summary>
    bool IsEncoded { get; }

    /// <summary>Runs its encoder, and keeps what that wrote until <see cref="Release"/>: an encoder runs once for each write, however often that is tried.</summary>
    /// <returns>False when it could not be encoded.</returns>
    bool TryEncode();

    /// <summary>Returns what it keeps.</summary>
    void Release();

    /// <returns>How many bytes it took; negative when it could not be encoded.</returns>
    int WriteTo(Span<byte> destination);

    /// <summary>Throws what its encoder threw.</summary>
    void ThrowIfFailed();
}

/// <summary>Bytes that are copied.</summary>
internal readonly ref struct CopiedPayload(ReadOnlySpan<byte> bytes) : IMessagePayload
{
    private readonly ReadOnlySpan<byte> _bytes = bytes;

    public static bool IsLatest => false;

    public static bool MayFail => false;

    public long Key => 0;

    public int MaxBytes => _bytes.Length;

    public bool IsEncoded => true;

    public bool TryEncode() => true;

    public void Release()
    {
    }

    public int WriteTo(Span<byte> destination)
    {
        _bytes.CopyTo(destination);
        return _bytes.Length;
    }

    public void ThrowIfFailed()
    {
    }
}

/// <summary>The latest value of a key.</summary>
internal ref struct LatestPayload<TPayload>(long key, TPayload payload) : IMessagePayload
    where TPayload : struct, IMessagePayload, allows ref struct
{
    private TPayload _payload = payload;

    public static bool IsLatest => true;

    public static bool MayFail => TPayload.MayFail;

    public readonly long Key => key;

    public readonly int MaxBytes => _payload.MaxBytes;

    public readonly bool IsEncoded => _payload.IsEncoded;

    public bool TryEncode() => _payload.TryEncode();

    public void Release() => _payload.Release();

    public int WriteTo(Span<byte> destination) => _payload.WriteTo(destination);

    public readonly void ThrowIfFailed() => _payload.ThrowIfFailed();
}

/// <summary>What a message takes of the buffer's capacity.</summary>
internal static class MessageCost
{
    /// <summary>The payload, the header, and where the message ends.</summary>
    public static int Of(int payloadBytes, MessageHeader? header) => payloadBytes + OutputBufferOptions.MessageOverheadBytes + (header?.EncodedBytes ?? 0);

    /// <summary>The same at most, and what a frame takes to tell its key.</summary>
    public static int InFrame<TPayload>(scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct =>
        Of(payload.MaxBytes, header) + (TPayload.IsLatest ? FrameFormat.MaxLatestBytes : 0);

    /// <summary>The same at most, and what it takes to remember its key.</summary>
    public static int Of<TPayload>(scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct =>
        Of(payload.MaxBytes, header) + (TPayload.IsLatest ? LatestValues.KeyBytes : 0);
}
