using System.Buffers;

namespace BatchKit.Transports;

/// <summary>What the writer and the reader of frames agree on; docs/wire-format.md has it byte by byte.</summary>
/// <remarks>The writer writes version 2 and the reader reads both, so a rolling upgrade replaces receivers before senders.</remarks>
internal static class FrameFormat
{
    public const byte Version = 2;
    public const byte FirstVersion = 1;
    public const int EpochBytes = sizeof(long);
    public const int TraceIdBytes = 16;
    public const int SpanIdBytes = 8;
    public const int TraceBytes = TraceIdBytes + SpanIdBytes + 1;

    /// <summary>Magic, version, node, epoch, partition and count of batches.</summary>
    public const int MaxPrologueBytes = 4 + (3 * MaxVarint32Bytes) + EpochBytes;

    /// <summary>Flags, number, a connection's number, count of messages, bytes of payload, count of headers, count of latest values.</summary>
    public const int MaxBatchPrologueBytes = 1 + (2 * MaxVarint64Bytes) + (4 * MaxVarint32Bytes);

    /// <summary>A latest value: how many messages stand before it, and its key.</summary>
    public const int MaxLatestBytes = MaxVarint32Bytes + sizeof(long);

    public const int MaxVarint32Bytes = 5;
    public const int MaxVarint64Bytes = 10;

    // As many as one byte counts, beside SharedHeader.
    public const int MaxSharedHeaders = 63;

    // As many as one byte counts.
    public const int MaxSharedTexts = 127;
    // What refers to a text is short, so no text that it stands for may be long.
    public const int MaxSharedTextLength = 255;

    public const byte NamedFlag = 0x01;
    public const byte HeadersFlag = 0x02;
    public const byte TraceFlag = 0x04;
    public const byte KnownHandleFlag = 0x08;
    public const byte LatestFlag = 0x10;
    public const byte KnownBatchFlags = NamedFlag | HeadersFlag | TraceFlag | KnownHandleFlag | LatestFlag;

    public const byte ShortBatch = 0x80;
    public const byte ShortHeadersFlag = 0x40;
    public const byte ShortHandleMask = 0x3F;

    // As many as a short batch's first byte counts.
    public const int MaxKnownHandles = ShortHandleMask;

    public const byte KindMask = 0x03;
    public const byte SharedHeader = 0x03;
    public const byte ExtendedHeader = SharedHeader;
    public const byte ExcludedFlag = 0x04;
    public const byte KeyFlag = 0x08;
    public const byte ContentTypeFlag = 0x10;
    public const byte PropertiesFlag = 0x20;
    public const byte TypeFlag = 0x40;
    public const byte RepeatedFlag = 0x80;
    public const byte ReplyToFlag = 0x01;
    public const byte CorrelationFlag = 0x02;
    public const byte RetainedFlag = 0x04;
    public const byte KnownExtensionFlags = ReplyToFlag | CorrelationFlag | RetainedFlag;
    public const byte MoreThanKind = ExcludedFlag | KeyFlag | ContentTypeFlag | PropertiesFlag | TypeFlag;
    public const byte FirstVersionHeaderFlags = KindMask | ExcludedFlag | KeyFlag | ContentTypeFlag | PropertiesFlag;

    public static ReadOnlySpan<byte> Magic => "BKF"u8;
}

/// <summary>What the frame that is being written or read refers to by numbers, from 1. It rents memory for the first.</summary>
internal ref struct NumberedValues<T>(int maxCount)
    where T : class
{
    private T[]? _values;

    public int Count { get; private set; }

    public readonly T this[int number] => _values![number - 1];

    public readonly ReadOnlySpan<T> All => _values.AsSpan(0, Count);

    /// <summary>The number of this object, or 0 when it has none.</summary>
    public readonly int Find(T value)
    {
        var all = All;
        for (var index = 0; index < all.Length; index++)
        {
            if (ReferenceEquals(all[index], value))
                return index + 1;
        }

        return 0;
    }

    /// <summary>Gives the value the next number, unless all are given.</summary>
    public void Add(T value)
    {
        if (Count == maxCount)
            return;
        _values ??= ArrayPool<T>.Shared.Rent(maxCount);
        _values[Count++] = value;
    }

    public void Dispose()
    {
        if (_values is not null)
            ArrayPool<T>.Shared.Return(_values, clearArray: true);
        _values = null;
        Count = 0;
    }
}

/// <summary>The handles of the frame that is being written or read, by numbers from 1. It rents memory for the first.</summary>
internal ref struct KnownHandles
{
    private OutputHandle[]? _handles;
    private long[]? _keys;

    public int Count { get; private set; }

    public readonly OutputHandle this[int number] => _handles![number - 1];

    /// <summary>The number of this handle, or 0 when it has none.</summary>
    public readonly int Find(OutputHandle handle)
    {
        var place = _keys.AsSpan(0, Count).IndexOf(handle.Key);
        return place >= 0 && _handles![place] == handle ? place + 1 : 0;
    }

    /// <summary>Gives a handle that the frame writes out the next number, unless all are given.</summary>
    public void Add(OutputHandle handle)
    {
        if (Count == FrameFormat.MaxKnownHandles)
            return;
        _handles ??= ArrayPool<OutputHandle>.Shared.Rent(FrameFormat.MaxKnownHandles);
        _keys ??= ArrayPool<long>.Shared.Rent(FrameFormat.MaxKnownHandles);
        (_handles[Count], _keys[Count]) = (handle, handle.Key);
        Count++;
    }

    public void Dispose()
    {
        if (_handles is null)
            return;
        ArrayPool<OutputHandle>.Shared.Return(_handles, clearArray: true);
        ArrayPool<long>.Shared.Return(_keys!);
        _handles = null;
        Count = 0;
    }
}

/// <summary>The limits of one frame, checked before memory is allocated for it. A frame past a limit is refused with an error that names the limit.</summary>
public sealed class FrameLimits
{
    /// <summary>The limits that apply when none are given.</summary>
    internal static FrameLimits Shared { get; } = new();

    /// <summary>The largest frame in bytes; 128 MiB by default, the largest body that RabbitMQ takes.</summary>
    [NumberRange(64, int.MaxValue)]
    public int MaxFrameBytes { get; init; } = 128 * 1024 * 1024;

    /// <summary>The most batches in a frame; 65,536 by default.</summary>
    [NumberRange(1, int.MaxValue)]
    public int MaxBatches { get; init; } = 65_536;

    /// <summary>The most messages in all batches of a frame; 4,194,304 by default.</summary>
    [NumberRange(1, int.MaxValue)]
    public int MaxMessages { get; init; } = 4 * 1024 * 1024;

    /// <summary>The most memory that reading a frame takes besides the frame itself (message ends, headers, names); 256 MiB by default.</summary>
    [NumberRange(1024, int.MaxValue)]
    public int MaxDecodedBytes { get; init; } = 256 * 1024 * 1024;
}

/// <summary>The bytes are not a frame, or the frame passes a limit. It can never be read, so its receiver drops it and does not ask for it again.</summary>
/// <param name="message">What is wrong, in a human-readable sentence; never holds bytes of the frame.</param>
public sealed class FrameFormatException(string message) : Exception(message);
