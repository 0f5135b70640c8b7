using System.Runtime.InteropServices;
using System.Security.Cryptography;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Frames;

/// <summary>Makes the frames of one enqueue: a producer of its own, batches that the next hop takes whole, and as few rows as read well.</summary>
internal static class EnqueuedFrames
{
    // What a buffer seals at by default.
    private const int MaxBatchBytes = 64 * 1024;

    // Far below what a reader of frames takes.
    private const int MaxFrameBytes = 8 * 1024 * 1024;

    // A length in front of each message.
    private const int MessageOverheadBytes = 5;

    public static byte[][] Make(OutputHandle handle, ReadOnlySpan<BatchMessage> messages, int node, int maxMessageBytes)
    {
        var batches = Cut(handle, messages, new ProducerId(node, MakeEpoch(), Lane: 0), Math.Min(MaxBatchBytes, maxMessageBytes));
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

    // A header's size is what a frame takes more with it.
    private static long Measure(OutputHandle handle, BatchMessage message) => MessageOverheadBytes + (long)message.Payload.Length + (message.Header is null
        ? 0
        : FrameWriter.Measure([MessageBatch.Create(handle, producer: default, number: 1, new BatchMessage(ReadOnlyMemory<byte>.Empty, message.Header))]));

    private static byte[] Encode(ReadOnlySpan<MessageBatch> batches)
    {
        using var frame = PooledFrame.Encode(batches);
        return frame.Bytes.ToArray();
    }

    // Drawn like a buffer's, for each call.
    private static long MakeEpoch() => MemoryMarshal.Read<long>(RandomNumberGenerator.GetBytes(sizeof(long)));
}

/// <summary>Stores frames in an outbox's queue, in order, in the transaction of their connection. Any thread.</summary>
/// <remarks>No producer's number goes with them: a caller whose commit was lost to view can't know either, and each call has a producer of its own.</remarks>
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
