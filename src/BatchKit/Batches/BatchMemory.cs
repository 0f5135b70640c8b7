using System.Buffers;
using System.Runtime.CompilerServices;
using BatchKit.Transports;

namespace BatchKit.Batches;

/// <summary>The bytes, ends and headers of one batch: small arrays of its own, and rented ones once it outgrows them.</summary>
internal struct BatchMemory
{
    // Enough for a handle that sends a line now and then. Measured: ArrayPool alone costs 408 B a handle with 10,000 batches alive.
    private const int OwnBytes = 256;
    private const int OwnMessages = 16;

    // A pooled batch keeps an array of so many bytes that it has grown to: the shared pool has few of each size, so a scope that holds thousands of batches would allocate all of theirs,
    // and the collector would move them. Measured: 380 ns a message in batches of ten, in a scope of 16 MiB.
    private const int LargestOwnBytes = 1024;

    // The pool would never free larger arrays, so these are allocated.
    private const int LargestRentedBytes = 1 << 20;

    // Memory for what was expected goes back when less than this part of it is used.
    private const int UnusedFactor = 8;

    // Of a message without one, and of each that has no place in the array.
    private const long NoDeadline = long.MaxValue;

    private byte[] _ownBytes;
    private readonly int[] _ownEnds;

    // By the buffer's clock. Null while no message has one.
    private long[]? _deadlines;

    public BatchMemory()
    {
        Bytes = _ownBytes = new byte[OwnBytes];
        Ends = _ownEnds = new int[OwnMessages];
        Latest = [];
    }

    public byte[] Bytes { get; private set; }

    public int[] Ends { get; private set; }

    public MessageHeader?[]? Headers { get; private set; }

    /// <summary>The latest values, once the batch is sealed; behind them the array has rubbish.</summary>
    public LatestMessage[] Latest { get; private set; }

    public int LatestCount { get; private set; }

    /// <summary>True when a message has a header of kind <see cref="MessageKind.Control"/>.</summary>
    public bool HasControl { get; private set; }

    /// <summary>True when a message has a deadline.</summary>
    public readonly bool MayExpire => _deadlines is not null;

    /// <summary>True when the last message has the same header object: a frame writes that once.</summary>
    public readonly bool EndsWith(MessageHeader header) => IsSame(Headers?[Count - 1], header);

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

    /// <summary>Adds a message without a header that there is memory for.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void AppendPlain(ReadOnlySpan<byte> payload)
    {
        var (start, count) = (UsedBytes, Count);
        payload.CopyTo(Bytes.AsSpan(start));
        UsedBytes = Ends[count] = start + payload.Length;
        if (Headers is not null)
            Headers[count] = null;
        Count = count + 1;
    }

    /// <summary>How many bytes fit without more memory.</summary>
    public readonly int FreeBytes => Bytes.Length - UsedBytes;

    /// <summary>How many messages it can have without more memory.</summary>
    public readonly int MostMessages => Headers is null ? Ends.Length : Math.Min(Ends.Length, Headers.Length);

    /// <summary>Gets memory for as much as is expected. Call it while it is empty.</summary>
    public void Expect(int bytes, int messages)
    {
        if (Bytes.Length < bytes)
            GrowBytes(bytes);
        if (Ends.Length < messages)
            Ends = ArrayPool<int>.Shared.Rent(messages);
    }

    /// <summary>Returns memory of which little is used.</summary>
    public void Trim()
    {
        if (Bytes != _ownBytes && Bytes.Length / UnusedFactor > UsedBytes)
        {
            var fitting = UsedBytes <= OwnBytes ? _ownBytes : Rent(UsedBytes);
            Bytes.AsSpan(0, UsedBytes).CopyTo(fitting);
            ReturnBytes();
            Bytes = fitting;
        }

        if (Ends != _ownEnds && Ends.Length / UnusedFactor > Count)
        {
            var fitting = Count <= OwnMessages ? _ownEnds : ArrayPool<int>.Shared.Rent(Count);
            Ends.AsSpan(0, Count).CopyTo(fitting);
            ReturnEnds();
            Ends = fitting;
        }
    }

    public readonly int StartOf(int message) => message == 0 ? 0 : Ends[message - 1];

    public readonly MessageHeader? HeaderOf(int message) => Headers?[message];

    /// <summary>How many bytes more repeated headers would share if a message had another header.</summary>
    public readonly int SharedBytesGrowth(int message, MessageHeader? header)
    {
        var old = HeaderOf(message);
        if (ReferenceEquals(old, header))
            return 0;
        var before = message == 0 ? null : HeaderOf(message - 1);
        var after = message == Count - 1 ? null : HeaderOf(message + 1);
        return SharedBytes(before, header) + SharedBytes(header, after) - SharedBytes(before, old) - SharedBytes(old, after);
    }

    /// <returns>How many bytes more repeated headers share now.</returns>
    public int ReplaceHeader(int message, MessageHeader? header)
    {
        if (ReferenceEquals(HeaderOf(message), header))
            return 0;
        var growth = SharedBytesGrowth(message, header);
        if (Headers is null)
            GrowHeaders();
        Headers![message] = header;
        return growth;
    }

    /// <summary>Puts the messages one behind another again, with the latest values in the place of those that they replaced.</summary>
    public void Rebuild(ReadOnlySpan<LatestSlot> slots, byte[] moved)
    {
        var size = UsedBytes;
        foreach (var slot in slots)
            size += slot.Length - (Ends[slot.Message] - StartOf(slot.Message));
        var rebuilt = Rent(size);
        var (start, end) = (0, 0);
        for (var message = 0; message < Count; message++)
        {
            var bytes = Bytes.AsSpan(start, Ends[message] - start);
            if (!slots.IsEmpty && slots[0].Message == message)
            {
                bytes = (slots[0].IsMoved ? moved : Bytes).AsSpan(slots[0].Start, slots[0].Length);
                slots = slots[1..];
            }

            bytes.CopyTo(rebuilt.AsSpan(end));
            start = Ends[message];
            Ends[message] = end += bytes.Length;
        }

        ReturnBytes();
        (Bytes, UsedBytes) = (rebuilt, end);
    }

    /// <summary>Remembers for the hops behind the buffer which messages are latest values.</summary>
    public void KeepLatest(ReadOnlySpan<LatestSlot> slots)
    {
        Latest = ArrayPool<LatestMessage>.Shared.Rent(slots.Length);
        foreach (var slot in slots)
            Latest[LatestCount++] = new LatestMessage(slot.Message, slot.Key);
    }

    /// <summary>Sets until when a message may be sent; null for any time.</summary>
    public void SetDeadline(int message, long? deadline)
    {
        if (_deadlines is null || _deadlines.Length <= message)
        {
            var grown = ArrayPool<long>.Shared.Rent(Math.Max(OwnMessages, (message + 1) * 2));
            Array.Fill(grown, NoDeadline);
            _deadlines?.CopyTo(grown, 0);
            ReturnDeadlines();
            _deadlines = grown;
        }

        _deadlines[message] = deadline ?? NoDeadline;
    }

    /// <summary>Until when a message may be sent; null for any time.</summary>
    public readonly long? DeadlineOf(int message) => _deadlines is null || message >= _deadlines.Length || _deadlines[message] == NoDeadline ? null : _deadlines[message];

    /// <summary>Takes out the messages whose deadline has passed. Call it behind <see cref="KeepLatest"/>.</summary>
    /// <returns>How many those are.</returns>
    public int RemoveExpired(long now)
    {
        var (kept, end, start, keptLatest, nextLatest) = (0, 0, 0, 0, 0);
        for (var message = 0; message < Count; message++)
        {
            var bytes = Bytes.AsSpan(start, Ends[message] - start);
            start = Ends[message];
            var isLatest = nextLatest < LatestCount && Latest[nextLatest].Index == message;
            nextLatest += isLatest ? 1 : 0;
            var deadline = DeadlineOf(message);
            if (deadline <= now)
                continue;
            if (kept < _deadlines!.Length)
                _deadlines[kept] = deadline ?? NoDeadline;
            if (isLatest)
                Latest[keptLatest++] = new LatestMessage(kept, Latest[nextLatest - 1].Key);
            if (Headers is not null)
                Headers[kept] = Headers[message];
            bytes.CopyTo(Bytes.AsSpan(end));
            Ends[kept++] = end += bytes.Length;
        }

        var expired = Count - kept;
        (Count, UsedBytes, LatestCount) = (kept, end, keptLatest);
        return expired;
    }

    /// <returns>True when it had outgrown its own arrays.</returns>
    public bool Return()
    {
        if (Bytes.Length > _ownBytes.Length && Bytes.Length <= LargestOwnBytes)
            _ownBytes = Bytes;
        var isOutgrown = Bytes != _ownBytes || Ends != _ownEnds || Headers is not null || Latest.Length > 0;
        if (isOutgrown)
        {
            ReturnBytes();
            ReturnEnds();
            ReturnHeaders();
            ReturnLatest();
            ReturnDeadlines();
        }

        UsedBytes = Count = 0;
        HasControl = false;
        return isOutgrown;
    }

    public static byte[] Rent(int bytes) => bytes > LargestRentedBytes ? GC.AllocateUninitializedArray<byte>(bytes) : ArrayPool<byte>.Shared.Rent(bytes);

    public static void Return(byte[] rented)
    {
        if (rented.Length <= LargestRentedBytes)
            ArrayPool<byte>.Shared.Return(rented);
    }

    private static bool IsSame(MessageHeader? left, MessageHeader? right) => left is not null && ReferenceEquals(left, right);

    private static int SharedBytes(MessageHeader? first, MessageHeader? second) => IsSame(first, second) ? second!.EncodedBytes - FrameWriter.RepeatedHeaderBytes : 0;

    // Doubles, so that a batch of any size copies each byte about once. Only a message that is large alone gets an array of its exact size.
    private void GrowBytes(int payloadBytes)
    {
        var needed = checked(UsedBytes + payloadBytes);
        var size = UsedBytes == 0 ? needed : (int)Math.Max(needed, Math.Min(Bytes.Length * 2L, Array.MaxLength));
        var grown = Rent(size);
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
            GrowHeaders();
        Headers![Count] = header;
        HasControl |= header?.Kind == MessageKind.Control;
    }

    private void GrowHeaders()
    {
        var grown = ArrayPool<MessageHeader?>.Shared.Rent(Math.Max(OwnMessages, Count * 2));
        Array.Clear(grown);
        Headers?.AsSpan(0, Count).CopyTo(grown);
        ReturnHeaders();
        Headers = grown;
    }

    private void ReturnBytes()
    {
        if (Bytes == _ownBytes)
            return;
        Return(Bytes);
        Bytes = _ownBytes;
    }

    private void ReturnEnds()
    {
        if (Ends == _ownEnds)
            return;
        ArrayPool<int>.Shared.Return(Ends);
        Ends = _ownEnds;
    }

    private void ReturnLatest()
    {
        if (Latest.Length == 0)
            return;
        ArrayPool<LatestMessage>.Shared.Return(Latest);
        (Latest, LatestCount) = ([], 0);
    }

    private void ReturnDeadlines()
    {
        if (_deadlines is not null)
            ArrayPool<long>.Shared.Return(_deadlines);
        _deadlines = null;
    }

    private void ReturnHeaders()
    {
        if (Headers is null)
            return;
        ArrayPool<MessageHeader?>.Shared.Return(Headers, clearArray: true);
        Headers = null;
    }
}
