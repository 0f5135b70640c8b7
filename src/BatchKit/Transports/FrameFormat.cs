namespace BatchKit.Transports;

/// <summary>What the writer and the reader of frames agree on. Numbers are little-endian varints of 7 bits a byte unless said otherwise.</summary>
/// <remarks>
/// frame: magic (3 bytes), version (1 byte), producer's node, epoch (8 bytes), lane, count of batches, batches.
/// batch: flags (1 byte), number, handle (a connection's number, or a text), count of messages, bytes of payload, each message's length,
/// headers when flagged (their count, then for each how many messages without one come before it, and the header), payload.
/// header: kind and flags (1 byte), then what is flagged: excluded connections (count, numbers), key, content type, properties (count, names and values).
/// text: its bytes, UTF-8.
/// </remarks>
internal static class FrameFormat
{
    public const byte Version = 1;
    public const int EpochBytes = sizeof(long);

    /// <summary>Magic, version, node, epoch, lane and count of batches.</summary>
    public const int MaxPrologueBytes = 4 + (3 * MaxVarint32Bytes) + EpochBytes;

    /// <summary>Flags, number, a connection's number, count of messages, bytes of payload, count of headers.</summary>
    public const int MaxBatchPrologueBytes = 1 + (2 * MaxVarint64Bytes) + (3 * MaxVarint32Bytes);

    public const int MaxVarint32Bytes = 5;
    public const int MaxVarint64Bytes = 10;

    public const byte NamedFlag = 0x01;
    public const byte HeadersFlag = 0x02;
    public const byte KnownBatchFlags = NamedFlag | HeadersFlag;

    public const byte KindMask = 0x03;
    public const byte ExcludedFlag = 0x04;
    public const byte KeyFlag = 0x08;
    public const byte ContentTypeFlag = 0x10;
    public const byte PropertiesFlag = 0x20;
    public const byte KnownHeaderFlags = KindMask | ExcludedFlag | KeyFlag | ContentTypeFlag | PropertiesFlag;

    public static ReadOnlySpan<byte> Magic => "BKF"u8;
}
