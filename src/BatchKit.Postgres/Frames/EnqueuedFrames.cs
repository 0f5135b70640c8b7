using System.Runtime.InteropServices;
using System.Security.Cryptography;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Frames;

/// <summary>Creates the frames of one enqueue, with a producer of its own: batches of a size that every transport accepts, in few frames.</summary>
internal static class EnqueuedFrames
{
    // The size at which a buffer seals a batch by default.
    private const int MaxBatchBytes = 64 * 1024;

    // Far below the limit of frame readers.
    private const int MaxFrameBytes = 8 * 1024 * 1024;

    // The most bytes of the length in front of each message.
    private const int MessageOverheadBytes = 5;

    public static byte[][] Create(OutputHandle handle, ReadOnlySpan<BatchMessage> messages, int node, int maxMessageBytes)
    {
        var batches = Cut(handle, messages, new ProducerId(node, DrawEpoch(), Partition: 0), Math.Min(MaxBatchBytes, maxMessageBytes));
        var frames = new List<byte[]>();
        var first = 0;
        var bytes = 0L;
        for (var index = 0; index < batches.Count; index++)
        {
            bytes += batches[index].Payload.Length;
            if (index + 1 < batches.Count && bytes + batches[index + 1].Payload.Length <= MaxFrameBytes)
                continue;
            frames.Add(Encode(CollectionsMarshal.AsSpan(batches)[first..(index + 1)]));
            (first, bytes) = (index + 1, 0);
        }

        return [.. frames];
    }

    private static List<MessageBatch> Cut(OutputHandle handle, ReadOnlySpan<BatchMessage> messages, ProducerId producer, int maxBytes)
    {
        var batches = new List<MessageBatch>();
        var first = 0;
        var bytes = 0L;
        for (var index = 0; index < messages.Length; index++)
        {
            var messageBytes = Measure(handle, messages[index]);
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

    // A header's size is measured as the size of a frame with nothing else.
    private static long Measure(OutputHandle handle, BatchMessage message) => MessageOverheadBytes + (long)message.Payload.Length + (message.Header is null
        ? 0
        : FrameWriter.Measure([MessageBatch.Create(handle, producer: default, number: 1, new BatchMessage(ReadOnlyMemory<byte>.Empty, message.Header))]));

    private static byte[] Encode(ReadOnlySpan<MessageBatch> batches)
    {
        using var frame = PooledFrame.Encode(batches);
        return frame.Bytes.ToArray();
    }

    // Drawn at random for each call, as a buffer draws its own at start.
    private static long DrawEpoch() => MemoryMarshal.Read<long>(RandomNumberGenerator.GetBytes(sizeof(long)));
}

/// <summary>Inserts frames into an outbox's queue, in order, in the transaction of the connection. Thread-safe.</summary>
/// <remarks>It stores no producer number: each call has a producer of its own, and only the caller can know whether its transaction was committed.</remarks>
internal sealed class OutboxInsert(Tables tables, TimeSpan commandTimeout)
{
    private readonly string _statement = $"""
        insert into {tables.Messages} (queue, shard, payload)
        select $1, 0, stored.frame from unnest($2) with ordinality as stored(frame, place) order by stored.place
        """;

    public async Task RunAsync(NpgsqlConnection connection, NpgsqlTransaction? transaction, QueueEntry queue, byte[][] frames, CancellationToken cancellationToken)
    {
        var command = new NpgsqlCommand(_statement, connection, transaction) { CommandTimeout = WholeSeconds.Of(commandTimeout) };
        await using var _ = command.ConfigureAwait(false);
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = queue.Id });
        command.Parameters.Add(new NpgsqlParameter<byte[][]> { TypedValue = frames });
        await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
    }
}
