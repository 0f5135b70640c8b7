using System.Buffers;
using System.Collections.Immutable;
using System.Diagnostics;
using System.Globalization;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>The rows of a send in rented memory, batch by batch. For frames it keeps the batches, which are encoded when they are stored.</summary>
internal sealed class SendRows : IDisposable
{
    private readonly ReadOnlyMemory<MessageBatch> _batches;
    private readonly QueueEntry? _frameQueue;
    private readonly FrameSigner? _signer;
    private readonly int[] _ends;
    // Read once, so that a retry stores the same.
    private readonly ActivityContext _trace = BatchKitTracing.RecordedContext;
    private readonly QueueRow[] _rows;
    private int _count;

    // Consecutive messages usually share one header.
    private MessageHeader? _lastHeader;
    private RowHeader? _lastRead;

    // The header of plain messages; null when they need none.
    private readonly RowHeader? _plain;

    public SendRows(ReadOnlyMemory<MessageBatch> batches, QueueEntry? frameQueue, FrameSigner? signer)
    {
        _signer = signer;
        _batches = batches;
        _frameQueue = frameQueue;
        _plain = frameQueue is null ? RowHeader.ForPlain(_trace) : null;
        _ends = new int[batches.Length];
        var messages = 0;
        foreach (var batch in batches.Span)
            messages += batch.Count;
        _rows = frameQueue is null ? ArrayPool<QueueRow>.Shared.Rent(messages) : [];
    }

    /// <summary>Adds a batch's messages, except those whose header can't be stored: the report refuses them.</summary>
    /// <returns>Null; the reason when there is no message that can be stored.</returns>
    public string? TryAdd(int index, QueueEntry queue, SendReport report)
    {
        var batch = _batches.Span[index];
        var start = _count;
        string? reason = null;
        for (var place = 0; place < batch.Count; place++)
        {
            var message = batch[place];
            var header = _plain;
            if (message.Header is { } given && (header = Read(given, out var refusal)) is null)
                report.Refuse(index, place, reason ??= refusal!);
            else
                _rows[_count++] = new QueueRow(queue, batch.Number, message.Payload, header);
        }

        return _count == start ? reason : null;
    }

    public void EndBatch(int batch) => _ends[batch] = _count;

    /// <summary>Returns the rows of a run, which one statement stores.</summary>
    public IProducerRows Of(Range run)
    {
        var (start, length) = run.GetOffsetAndLength(_batches.Length);
        if (_frameQueue is { } queue)
            return new FrameRows(queue, _batches.Slice(start, length), _signer, _trace);
        var first = start == 0 ? 0 : _ends[start - 1];
        return new MessageRows(_batches.Span[start].Producer, _rows.AsMemory(first.._ends[start + length - 1]));
    }

    public void Dispose()
    {
        if (_rows.Length == 0)
            return;
        _rows.AsSpan(0, _count).Clear();
        ArrayPool<QueueRow>.Shared.Return(_rows);
    }

    private RowHeader? Read(MessageHeader header, out string? refusal)
    {
        refusal = null;
        if (!ReferenceEquals(header, _lastHeader))
            (_lastHeader, _lastRead) = (header, RowHeader.Read(header, _trace, out refusal));
        return _lastRead ?? RowHeader.Read(header, _trace, out refusal);
    }
}

/// <summary>The rows that one statement stores: those of one producer, by the numbers of their batches.</summary>
internal interface IProducerRows : IDisposable
{
    ProducerId Producer { get; }

    /// <summary>The number of the last batch.</summary>
    long LastNumber { get; }

    /// <summary>The rows' queues, each at least once.</summary>
    IEnumerable<QueueEntry> Queues { get; }

    /// <summary>Returns the rows of the batches whose number is above a number.</summary>
    /// <param name="number">The number; it is below <see cref="LastNumber"/>.</param>
    /// <param name="firstNumber">The number of the first batch above it.</param>
    ReadOnlyMemory<QueueRow> Above(long number, out long firstNumber);
}

/// <summary>Rows that are messages.</summary>
internal sealed class MessageRows(ProducerId producer, ReadOnlyMemory<QueueRow> rows) : IProducerRows
{
    public ProducerId Producer => producer;

    public long LastNumber => rows.Span[^1].Number;

    public IEnumerable<QueueEntry> Queues
    {
        get
        {
            QueueEntry? last = null;
            for (var index = 0; index < rows.Length; index++)
            {
                var queue = rows.Span[index].Queue;
                if (!ReferenceEquals(queue, last))
                    yield return last = queue;
            }
        }
    }

    public ReadOnlyMemory<QueueRow> Above(long number, out long firstNumber)
    {
        var stored = 0;
        while (rows.Span[stored].Number <= number)
            stored++;
        firstNumber = rows.Span[stored].Number;
        return rows[stored..];
    }

    public void Dispose()
    {
    }
}

/// <summary>One row that is a frame. When some of its batches are stored already, the frame is encoded again without them.</summary>
internal sealed class FrameRows(QueueEntry queue, ReadOnlyMemory<MessageBatch> batches, FrameSigner? signer, ActivityContext trace) : IProducerRows
{
    private readonly QueueRow[] _row = new QueueRow[1];
    private PooledFrame? _frame;

    public ProducerId Producer => batches.Span[0].Producer;

    public long LastNumber => batches.Span[^1].Number;

    public IEnumerable<QueueEntry> Queues => [queue];

    public ReadOnlyMemory<QueueRow> Above(long number, out long firstNumber)
    {
        var stored = 0;
        while (batches.Span[stored].Number <= number)
            stored++;
        firstNumber = batches.Span[stored].Number;
        _frame?.Dispose();
        _frame = PooledFrame.Encode(batches.Span[stored..], signer, trace);
        _row[0] = new QueueRow(queue, LastNumber, _frame.Bytes);
        return _row;
    }

    public void Dispose() => _frame?.Dispose();
}

/// <summary>A row to store: a message or a frame.</summary>
/// <param name="Queue">Its queue.</param>
/// <param name="Number">The number of its batch; of a frame, the number of its last batch.</param>
/// <param name="Payload">Its bytes, valid until the send ends.</param>
/// <param name="Header">Its header; null for a plain message.</param>
internal readonly record struct QueueRow(QueueEntry Queue, long Number, ReadOnlyMemory<byte> Payload, RowHeader? Header = null);

/// <summary>The columns that a message's header fills, read once for each header.</summary>
internal sealed class RowHeader
{
    /// <summary>A hundred years, far below the limit of the server's timestamps.</summary>
    public const long MaxDelayMilliseconds = 36_500L * 24 * 60 * 60 * 1000;

    private const int MaxQuotedCharacters = 40;

    /// <summary>The priority, negated, so that indexes ascend.</summary>
    public short Rank { get; private set; }

    public long DelayMilliseconds { get; private set; }

    public string? UniqueKey { get; private set; }

    /// <summary>True when the uniqueness key is freed as soon as the message is claimed.</summary>
    public bool FreesAtClaim { get; private set; }

    public string? Key { get; private init; }

    /// <summary>The stored header, without the properties that have columns of their own, and the trace of the send; null when there is neither.</summary>
    public byte[]? Stored { get; private set; }

    /// <summary>The header of a message without one: only the trace of its send, where it has one.</summary>
    public static RowHeader? ForPlain(ActivityContext trace) => trace == default ? null : new RowHeader { Stored = StoredHeader.Write(header: null, trace) };

    /// <summary>Reads a header.</summary>
    /// <returns>Null when the header can't be stored.</returns>
    public static RowHeader? Read(MessageHeader header, ActivityContext trace, out string? refusal)
    {
        var row = new RowHeader { Key = header.Key };
        var properties = header.Properties.IsDefault ? [] : header.Properties;
        refusal = string.IsNullOrEmpty(header.Key) || QueueLimits.RefuseKey(header.Key) is not { } keyReason ? null : $"A message's key {keyReason}";
        var known = 0;
        foreach (var (name, value) in properties)
        {
            if (row.TryRead(name, value, ref refusal))
                known++;
        }

        if (refusal is not null)
            return null;
        row.Stored = Store(header, trace, properties, known);
        return row;
    }

    private static byte[]? Store(MessageHeader header, ActivityContext trace, ImmutableArray<KeyValuePair<string, string>> properties, int known)
    {
        var excluded = header.ExcludedConnections.IsDefault ? [] : header.ExcludedConnections;
        if (header is { Kind: MessageKind.Output, Key: null, ContentType: null, Type: null, ReplyTo: null, CorrelationData.IsDefaultOrEmpty: true, IsRetained: false } && excluded.IsEmpty && properties.Length == known)
            return trace == default ? null : StoredHeader.Write(header: null, trace);
        if (known == 0)
            return StoredHeader.Write(header, trace);
        return StoredHeader.Write(new MessageHeader
        {
            Kind = header.Kind,
            ExcludedConnections = excluded,
            Key = header.Key,
            ContentType = header.ContentType,
            Type = header.Type,
            ReplyTo = header.ReplyTo,
            CorrelationData = header.CorrelationData,
            IsRetained = header.IsRetained,
            Properties = properties.RemoveAll(static property => IsKnown(property.Key)),
        }, trace);
    }

    private static bool IsKnown(string name) =>
        name is QueueMessageHeader.DelayProperty or QueueMessageHeader.PriorityProperty or QueueMessageHeader.UniqueKeyProperty or QueueMessageHeader.UniqueScopeProperty;

    private static string Quote(string value) => value.Length <= MaxQuotedCharacters ? $"'{value}'" : $"'{value[..MaxQuotedCharacters]}…'";

    private bool TryRead(string name, string value, ref string? refusal)
    {
        switch (name)
        {
            case QueueMessageHeader.DelayProperty:
                if (long.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out var delay) && delay <= MaxDelayMilliseconds)
                    DelayMilliseconds = delay;
                else
                    refusal ??= $"A message's {name} ({Quote(value)}) is not a number of milliseconds from 0 to {MaxDelayMilliseconds}.";
                return true;
            case QueueMessageHeader.PriorityProperty:
                if (int.TryParse(value, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var priority) && priority is >= -short.MaxValue and <= short.MaxValue)
                    Rank = (short)-priority;
                else
                    refusal ??= $"A message's {name} ({Quote(value)}) is not a number from {-short.MaxValue} to {short.MaxValue}.";
                return true;
            case QueueMessageHeader.UniqueKeyProperty:
                UniqueKey = value;
                if (QueueLimits.RefuseQueue(value) is { } reason)
                    refusal ??= $"A message's {name} {reason}";
                return true;
            case QueueMessageHeader.UniqueScopeProperty:
                FreesAtClaim = value == QueueMessageHeader.Waiting;
                if (value is not (QueueMessageHeader.Waiting or QueueMessageHeader.Unsettled))
                    refusal ??= $"A message's {name} ({Quote(value)}) must be '{QueueMessageHeader.Unsettled}' or '{QueueMessageHeader.Waiting}'.";
                return true;
            default:
                return false;
        }
    }
}
