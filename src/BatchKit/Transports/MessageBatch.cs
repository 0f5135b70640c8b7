using System.Buffers;
using System.Diagnostics;

namespace BatchKit.Transports;

/// <summary>A sealed, ordered run of messages for one handle, in one contiguous block of memory.</summary>
/// <remarks>Valid until the task of the <see cref="IBatchTransport.SendAsync"/> that got it has ended; after that its memory is reused. Read it from any thread.</remarks>
public abstract class MessageBatch
{
    private int[] _ends = [];
    private MessageHeader?[]? _headers;
    private LatestMessage[] _latest = [];
    private int _latestCount;

    private protected MessageBatch()
    {
    }

    /// <summary>Where the messages go.</summary>
    public OutputHandle Handle { get; private set; }

    /// <summary>Who numbered the batch.</summary>
    public ProducerId Producer { get; private set; }

    /// <summary>The batch's number, from 1; rises within its producer, with gaps where a producer serves several destinations.</summary>
    public long Number { get; private set; }

    /// <summary>How many messages it has; at least one.</summary>
    public int Count { get; private set; }

    /// <summary>The bytes of all messages, one after another.</summary>
    public ReadOnlyMemory<byte> Payload { get; private set; }

    /// <summary>False when every message is plain.</summary>
    public bool HasHeaders => _headers is not null;

    /// <summary>For each message, where in <see cref="Payload"/> it ends.</summary>
    public ReadOnlySpan<int> MessageEnds => _ends.AsSpan(0, Count);

    /// <summary>The headers, one for each message and null for a plain one; empty when <see cref="HasHeaders"/> is false.</summary>
    public ReadOnlySpan<MessageHeader?> Headers => _headers is null ? [] : _headers.AsSpan(0, Count);

    /// <summary>Its latest values (<see cref="IOutputBuffer.WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)"/>), in order; empty for most batches.</summary>
    /// <remarks>A hop that holds a batch back, such as a queue of a client that does not read, may put a newer value of the same handle and key in the place of an older one. Frames carry them to other processes.</remarks>
    public ReadOnlySpan<LatestMessage> LatestMessages => _latest.AsSpan(0, _latestCount);

    /// <summary>One message.</summary>
    /// <param name="index">From 0 to <see cref="Count"/> - 1.</param>
    /// <exception cref="ArgumentOutOfRangeException">There is no such message.</exception>
    public BatchMessage this[int index]
    {
        get
        {
            ArgumentOutOfRangeException.ThrowIfNegative(index);
            ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(index, Count);
            var start = index == 0 ? 0 : _ends[index - 1];
            return new BatchMessage(Payload[start.._ends[index]], _headers?[index]);
        }
    }

    /// <summary>Creates a batch of copied messages, for tests of a transport and for hops that build their own batches.</summary>
    /// <param name="handle">Where the messages go.</param>
    /// <param name="producer">Who numbered it.</param>
    /// <param name="number">Its number.</param>
    /// <param name="messages">At least one.</param>
    /// <exception cref="ArgumentException">There are no messages.</exception>
    public static MessageBatch Create(OutputHandle handle, ProducerId producer, long number, params ReadOnlySpan<BatchMessage> messages)
    {
        if (messages.IsEmpty)
            throw new ArgumentException("A batch has at least one message.", nameof(messages));
        var payload = new byte[TotalBytes(messages)];
        var ends = new int[messages.Length];
        var headers = new MessageHeader?[messages.Length];
        var end = 0;
        for (var index = 0; index < messages.Length; index++)
        {
            messages[index].Payload.Span.CopyTo(payload.AsSpan(end));
            end += messages[index].Payload.Length;
            ends[index] = end;
            headers[index] = messages[index].Header;
        }

        var batch = new ReceivedBatch();
        batch.Assign(handle, payload, ends, headers, messages.Length);
        batch.Identify(producer, number);
        return batch;
    }

    /// <summary>Enumerates the messages in order, without allocating.</summary>
    public Enumerator GetEnumerator() => new(this);

    /// <summary>How long a message may wait from now on; null for any time. A hop that keeps messages does not give them all of their time anew.</summary>
    internal virtual TimeSpan? TimeLeftOf(int message) => _headers?[message]?.TimeToLive;

    internal void Assign(OutputHandle handle, ReadOnlyMemory<byte> payload, int[] ends, MessageHeader?[]? headers, int count)
    {
        Debug.Assert(count > 0 && ends[count - 1] == payload.Length, "The last message ends where the payload does.");
        // A pooled batch mostly has these already, and comparing costs less than the collector's write barriers (8 ns of an unscoped write's 107).
        if (Handle != handle)
            Handle = handle;
        if (!Payload.Equals(payload))
            Payload = payload;
        if (_ends != ends)
            _ends = ends;
        // Those that had a header may have expired, or been replaced.
        headers = headers is null || IsPlain(headers.AsSpan(0, count)) ? null : headers;
        if (_headers != headers)
            _headers = headers;
        Count = count;
    }

    internal void AssignLatest(LatestMessage[] latest, int count) => (_latest, _latestCount) = (latest, count);

    internal LatestMessage[] TakeLatest()
    {
        var latest = _latest;
        (_latest, _latestCount) = ([], 0);
        return latest;
    }

    internal void Unassign()
    {
        Handle = default;
        Payload = default;
        _ends = [];
        _headers = null;
        TakeLatest();
        Count = 0;
    }

    internal void Identify(ProducerId producer, long number)
    {
        Producer = producer;
        Number = number;
    }

    private static bool IsPlain(ReadOnlySpan<MessageHeader?> headers)
    {
        foreach (var header in headers)
        {
            if (header is not null)
                return false;
        }

        return true;
    }

    private static int TotalBytes(ReadOnlySpan<BatchMessage> messages)
    {
        var total = 0;
        foreach (var message in messages)
            total = checked(total + message.Payload.Length);
        return total;
    }

    /// <summary>Enumerates a batch's messages in order.</summary>
    public struct Enumerator
    {
        private readonly MessageBatch _batch;
        private int _index;

        internal Enumerator(MessageBatch batch)
        {
            _batch = batch;
            _index = -1;
        }

        /// <summary>The current message.</summary>
        public readonly BatchMessage Current => _batch[_index];

        /// <summary>Moves to the next message.</summary>
        /// <returns>False when there is none.</returns>
        public bool MoveNext() => ++_index < _batch.Count;
    }
}

/// <summary>One message of a batch: its bytes and, when it needs one, a header.</summary>
/// <remarks>The payload's memory is the batch's, and is valid as long as that is.</remarks>
/// <param name="Payload">The message's bytes.</param>
/// <param name="Header">The header; null for a plain message.</param>
public readonly record struct BatchMessage(ReadOnlyMemory<byte> Payload, MessageHeader? Header = null)
{
    /// <summary>What the message is for; output when it has no header.</summary>
    public MessageKind Kind => Header?.Kind ?? MessageKind.Output;
}

/// <summary>A message of which only the newest with its handle and key matters.</summary>
/// <param name="Index">Which message of its batch it is.</param>
/// <param name="Key">What it is a value of, among those of the batch's handle.</param>
public readonly record struct LatestMessage(int Index, long Key);

/// <summary>Who numbered a batch: a node, an epoch drawn at its start, and one of its ordered partitions.</summary>
/// <remarks>Numbers rise within one producer. A process that starts again draws a new epoch and so is a new producer.</remarks>
/// <param name="Node">The node's number.</param>
/// <param name="Epoch">A random number, drawn when the buffer was created.</param>
/// <param name="Partition">The number of the partition, over all routes of the buffer.</param>
public readonly record struct ProducerId(int Node, long Epoch, int Partition);

/// <summary>A batch that was read from a frame or created by hand. Its creator owns the payload; it returns what it rents on release.</summary>
internal sealed class ReceivedBatch : MessageBatch
{
    // A small array costs more to rent than to keep: most batches of a crowded frame have a few messages.
    private const int MaxKeptEnds = 64;

    private int[] _rentedEnds = [];
    private MessageHeader?[] _rentedHeaders = [];

    /// <summary>The message at which the last send of this batch failed, after the next hop had handled those before it; -1 when unknown.</summary>
    public int FailedMessage { get; set; } = -1;

    /// <summary>The first message that the next hop may handle: a receiver has given up the one before.</summary>
    public int FirstMessage { get; private set; }

    /// <summary>How many messages a receiver has given up one by one, and counted.</summary>
    public int GivenUpMessages { get; private set; }

    /// <summary>Gives up one message. The next send begins behind it.</summary>
    public void GiveUp(int message)
    {
        FirstMessage = message + 1;
        GivenUpMessages++;
    }

    public int[] RentEnds(int count)
    {
        if (_rentedEnds.Length >= count)
            return _rentedEnds;
        ReturnEnds();
        return _rentedEnds = ArrayPool<int>.Shared.Rent(count);
    }

    public MessageHeader?[] RentHeaders(int count)
    {
        _rentedHeaders = ArrayPool<MessageHeader?>.Shared.Rent(count);
        _rentedHeaders.AsSpan(0, count).Clear();
        return _rentedHeaders;
    }

    public void Release(bool keepSmall)
    {
        if (!LatestMessages.IsEmpty)
            ArrayPool<LatestMessage>.Shared.Return(TakeLatest());
        Unassign();
        FailedMessage = -1;
        FirstMessage = 0;
        GivenUpMessages = 0;
        if (!keepSmall || _rentedEnds.Length > MaxKeptEnds)
            ReturnEnds();
        if (_rentedHeaders.Length > 0)
            ArrayPool<MessageHeader?>.Shared.Return(_rentedHeaders, clearArray: true);
        _rentedHeaders = [];
    }

    private void ReturnEnds()
    {
        if (_rentedEnds.Length > 0)
            ArrayPool<int>.Shared.Return(_rentedEnds);
        _rentedEnds = [];
    }
}
