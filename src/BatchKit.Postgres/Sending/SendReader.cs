using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>Turns a send's batches into rows, and refuses those that never can be any.</summary>
internal sealed class SendReader(PostgresOptions options, SendLimits limits, QueueDirectory directory)
{
    private const int FrameShards = 1;

    /// <summary>Reads all batches; what it refuses is in the report.</summary>
    /// <exception cref="InvalidOperationException">The queue of the frames is not one for frames.</exception>
    public async ValueTask<SendRows> ReadAsync(ReadOnlyMemory<MessageBatch> batches, SendReport report, CancellationToken cancellationToken)
    {
        var frameQueue = options.FrameQueue is { } name ? await directory.FindOrCreateAsync(name, FrameShards, cancellationToken).ConfigureAwait(false) : null;
        if (frameQueue is { Shards: not FrameShards })
        {
            throw new InvalidOperationException(
                $"The queue '{frameQueue.Name}' exists with {frameQueue.Shards} shards, and frames need a queue with {FrameShards}: give {nameof(PostgresOptions.FrameQueue)} another name.");
        }

        var rows = new SendRows(batches, frameQueue);
        try
        {
            for (var index = 0; index < batches.Length; index++)
            {
                var batch = batches.Span[index];
                var refusal = Refuse(batch);
                if (refusal is null && frameQueue is null)
                    refusal = rows.TryAdd(batch, await directory.FindOrCreateAsync(batch.Handle.Name!, options.ShardsOf(batch.Handle.Name!), cancellationToken).ConfigureAwait(false));
                if (refusal is not null)
                    report.Refuse(index, refusal);
                rows.EndBatch(index);
            }
        }
        catch
        {
            rows.Dispose();
            throw;
        }

        return rows;
    }

    private string? Refuse(MessageBatch batch)
    {
        if (batch.Number < 1 || batch.Handle.IsNone)
            return "A batch has no handle, or no number from 1 on.";
        if (options.FrameQueue is null && batch.Handle.Name is null)
            return $"Output for connections, such as {batch.Handle}, has no queue of its own: set {nameof(PostgresOptions.FrameQueue)}, and receive with ReceiveFromPostgres.";
        if (options.FrameQueue is null && QueueLimits.RefuseQueue(batch.Handle.Name) is { } reason)
            return $"A handle's name, which is a queue's here, {reason}";
        return limits.BytesOf(batch) is var bytes && bytes > limits.MaxBytes
            ? $"A batch for {batch.Handle} has {bytes} bytes, more than {nameof(PostgresOptions.MaxStatementBytes)} allows ({limits.MaxBytes})."
            : null;
    }
}
