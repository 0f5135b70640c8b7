using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Frames;

/// <summary>Creates the frames of one enqueue, with a producer of its own. Their batches are small enough for every transport, and the frames are few.</summary>
internal static class EnqueuedFrames
{
    // Each call draws an epoch of its own, so no receiver mistakes the frames for ones that its own buffer has delivered locally. The highest node number also differs from the number of most nodes.
    private const int Node = OutputHandle.MaxNode;

    // The size at which a buffer seals a batch by default.
    private const int MaxBatchBytes = 64 * 1024;

    // Far below the limits of frame readers.
    private const int MaxFrameBytes = 8 * 1024 * 1024;
    private const int MaxFrameBatches = 4096;
    private const int MaxFrameMessages = 65_536;

    // The maximum bytes of the length in front of each message.
    private const int MessageOverheadBytes = 5;

    private static readonly int EmptyFrameBytes = FrameWriter.Measure([Empty(header: null)]);

    public static byte[][] Create(OutputHandle handle, ReadOnlySpan<BatchMessage> messages, int maxMessageBytes)
    {
        var trace = BatchKitTracing.RecordedContext;
        var batches = Cut(handle, messages, new ProducerId(Node, DrawEpoch(), Partition: 0), Math.Min(MaxBatchBytes, maxMessageBytes));
        var frames = new List<byte[]>();
        var first = 0;
        var (bytes, count) = (0L, 0);
        for (var index = 0; index < batches.Count; index++)
        {
            var batchBytes = FrameWriter.Measure([batches[index]]);
            if (index > first && (bytes + batchBytes > MaxFrameBytes || index - first == MaxFrameBatches || count + batches[index].Count > MaxFrameMessages))
            {
                frames.Add(Encode(CollectionsMarshal.AsSpan(batches)[first..index], trace));
                (first, bytes, count) = (index, 0, 0);
            }

            bytes += batchBytes;
            count += batches[index].Count;
        }

        frames.Add(Encode(CollectionsMarshal.AsSpan(batches)[first..], trace));
        return [.. frames];
    }

    /// <summary>Measures a message as a transport's limit does: its payload and its header.</summary>
    public static long Measure(BatchMessage message) => message.Payload.Length + (message.Header is null ? 0 : Encode([Empty(message.Header)]).LongLength - Encode([Empty(header: null)]).LongLength);

    /// <summary>Returns the maximum number of bytes that a message may have, without encoding it.</summary>
    public static long MeasureAtMost(BatchMessage message) => message.Payload.Length + (message.Header is { } header ? (long)FrameWriter.Measure([Empty(header)]) - EmptyFrameBytes : 0);

    private static MessageBatch Empty(MessageHeader? header) =>
        MessageBatch.Create(OutputHandle.Connection(number: 1), producer: default, number: 1, new BatchMessage(ReadOnlyMemory<byte>.Empty, header));

    private static List<MessageBatch> Cut(OutputHandle handle, ReadOnlySpan<BatchMessage> messages, ProducerId producer, int maxBytes)
    {
        var batches = new List<MessageBatch>();
        var first = 0;
        var bytes = 0L;
        for (var index = 0; index < messages.Length; index++)
        {
            var messageBytes = MessageOverheadBytes + MeasureAtMost(messages[index]);
            if (index > first && bytes + messageBytes > maxBytes)
            {
                batches.Add(MessageBatch.Create(handle, producer, batches.Count + 1, messages[first..index]));
                (first, bytes) = (index, 0);
            }

            bytes += messageBytes;
        }

        batches.Add(MessageBatch.Create(handle, producer, batches.Count + 1, messages[first..]));
        return batches;
    }

    private static byte[] Encode(ReadOnlySpan<MessageBatch> batches, ActivityContext trace = default)
    {
        using var frame = PooledFrame.Encode(batches, signer: null, trace);
        return frame.Bytes.ToArray();
    }

    // Drawn at random for each call, as a buffer draws its own at start.
    private static long DrawEpoch() => MemoryMarshal.Read<long>(RandomNumberGenerator.GetBytes(sizeof(long)));
}

/// <summary>Inserts frames into an outbox's queue, in order. Thread-safe.</summary>
/// <remarks>It stores no producer number: each call has a producer of its own, and only the caller can know whether its transaction was committed.</remarks>
internal sealed class OutboxInsert(Tables tables, TimeSpan commandTimeout)
{
    // Far below the limit of one message to the server (1 GiB).
    private const int MaxStatementBytes = 32 * 1024 * 1024;

    private readonly string _insert = $"""
        insert into {tables.Messages} (queue, shard, payload)
        select $1, 0, stored.frame from pg_catalog.unnest($2) with ordinality as stored(frame, place)
        """;

    private readonly string _isKnown = $"where exists (select from {tables.Queues} where id = $1 and name = $3 and shards = {SendReader.FrameShards})";

    /// <summary>Stores the frames in one transaction: the caller's, or one of its own.</summary>
    /// <param name="connection">The connection.</param>
    /// <param name="transaction">The caller's transaction; null stores the frames in one of their own.</param>
    /// <param name="queue">The outbox's queue.</param>
    /// <param name="isFresh">True when the queue's number was just read, so that it needs no check: a caller's transaction may not see a queue that is younger than its snapshot.</param>
    /// <param name="frames">The frames.</param>
    /// <param name="cancellationToken">Cancels the statements.</param>
    /// <returns>False when the queue no longer has this number; nothing was stored then.</returns>
    public async Task<bool> RunAsync(NpgsqlConnection connection, NpgsqlTransaction? transaction, QueueEntry queue, bool isFresh, byte[][] frames, CancellationToken cancellationToken)
    {
        var parts = Split(frames);
        if (transaction is not null || parts.Count == 1)
            return await StoreAsync(connection, transaction, queue, isFresh, parts, cancellationToken).ConfigureAwait(false);
        var own = await connection.BeginTransactionAsync(cancellationToken).ConfigureAwait(false);
        await using (own.ConfigureAwait(false))
        {
            var isStored = await StoreAsync(connection, own, queue, isFresh, parts, cancellationToken).ConfigureAwait(false);
            await own.CommitAsync(cancellationToken).ConfigureAwait(false);
            return isStored;
        }
    }

    private async Task<bool> StoreAsync(
        NpgsqlConnection connection, NpgsqlTransaction? transaction, QueueEntry queue, bool isFresh, List<byte[][]> parts, CancellationToken cancellationToken)
    {
        foreach (var part in parts)
        {
            var statement = isFresh ? $"{_insert} order by stored.place" : $"{_insert} {_isKnown} order by stored.place";
            var command = new NpgsqlCommand(statement, connection, transaction) { CommandTimeout = WholeSeconds.Of(commandTimeout) };
            await using var _ = command.ConfigureAwait(false);
            command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = queue.Id });
            command.Parameters.Add(new NpgsqlParameter<byte[][]> { TypedValue = part });
            if (!isFresh)
                command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = queue.Name });
            if (await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false) == 0)
                return false;
        }

        return true;
    }

    private static List<byte[][]> Split(byte[][] frames)
    {
        var parts = new List<byte[][]>();
        var first = 0;
        var bytes = 0L;
        for (var index = 0; index < frames.Length; index++)
        {
            if (index > first && bytes + frames[index].Length > MaxStatementBytes)
            {
                parts.Add(frames[first..index]);
                (first, bytes) = (index, 0);
            }

            bytes += frames[index].Length;
        }

        parts.Add(frames[first..]);
        return parts;
    }
}
