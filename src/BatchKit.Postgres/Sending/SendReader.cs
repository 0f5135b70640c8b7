using System.Collections.Immutable;
using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Converts a send's batches to rows, and refuses batches that can never be stored.</summary>
internal sealed class SendReader(PostgresOptions options, SendLimits limits, QueueDirectory directory, FrameSigner? signer)
{
    /// <summary>Frames are stored in order: one shard.</summary>
    public const int FrameShards = 1;

    /// <summary>Returns why a batch is refused whose content the server can't store.</summary>
    public static string Refuse(MessageBatch batch, PostgresException exception) =>
        $"The server can't store a batch for {batch.Handle}: {exception.MessageText} (SQLSTATE {exception.SqlState}). "
        + (ServerFault.IsCheck(exception) ? "Write what the table's check accepts, or drop the check." : "Change its names and keys, or use a database with the encoding UTF8.");

    /// <summary>Reads all batches, and adds refused ones to the report.</summary>
    /// <exception cref="InvalidOperationException">The queue for frames is another kind of queue.</exception>
    public async ValueTask<SendRows> ReadAsync(ReadOnlyMemory<MessageBatch> batches, SendReport report, CancellationToken cancellationToken)
    {
        var frameQueue = options.FrameQueue is { } name ? await directory.FindOrCreateAsync(name, FrameShards, cancellationToken).ConfigureAwait(false) : null;
        if (frameQueue is { Shards: not FrameShards })
        {
            throw new InvalidOperationException(
                $"The queue '{frameQueue.Name}' exists with {frameQueue.Shards} shards, and frames need a queue with {FrameShards}: give {nameof(PostgresOptions.FrameQueue)} another name.");
        }

        var rows = new SendRows(batches, frameQueue, signer);
        try
        {
            for (var index = 0; index < batches.Length; index++)
            {
                var batch = batches.Span[index];
                var refusal = Refuse(batch);
                if (refusal is null && frameQueue is null)
                {
                    refusal = await TryAddAsync(rows, index, batch, report, cancellationToken).ConfigureAwait(false);
                }

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

    private async ValueTask<string?> TryAddAsync(SendRows rows, int index, MessageBatch batch, SendReport report, CancellationToken cancellationToken)
    {
        var shards = options.ShardsOf(batch.Handle.Name!);
        try
        {
            var queue = await directory.FindOrCreateAsync(batch.Handle.Name!, shards, cancellationToken).ConfigureAwait(false);
            return RefuseUnordered(queue, shards) ?? rows.TryAdd(index, queue, report);
        }
        catch (PostgresException exception) when (ServerFault.RefusesContent(exception))
        {
            return Refuse(batch, exception);
        }
    }

    // With any number of shards a queue keeps the order of each key, so only a queue without order is refused.
    private static string? RefuseUnordered(QueueEntry queue, int shards) => shards > 0 && queue.Shards == 0
        ? $"The queue '{queue.Name}' was created with 0 shards, so it keeps no order, but {nameof(PostgresOptions.Shards)} is {shards} here: give the queue another name, or set its shards to 0 in {nameof(PostgresOptions.QueueShards)}."
        : null;

    private string? Refuse(MessageBatch batch)
    {
        if (batch.Number < 1 || batch.Handle.IsNone)
            return "A batch has no handle, or its number is below 1.";
        if (options.FrameQueue is null && batch.Handle.Name is null)
            return $"Output for connections, such as {batch.Handle}, has no queue: set {nameof(PostgresOptions.FrameQueue)}, and receive with ReceiveFromPostgres.";
        if (options.FrameQueue is null && QueueLimits.RefuseQueue(batch.Handle.Name) is { } reason)
            return $"A handle's name, which is the queue's name, {reason}";
        return limits.BytesOf(batch) is var bytes && bytes > limits.MaxBytes
            ? $"A batch for {batch.Handle} has {bytes} bytes, more than {nameof(PostgresOptions.MaxStatementBytes)} allows ({limits.MaxBytes}). Raise it, or write smaller messages."
            : null;
    }
}

/// <summary>Splits a send's batches into runs; one statement stores a run.</summary>
internal sealed class SendLimits(PostgresOptions options)
{
    // Half of a receiver's default limit (FrameLimits), so that everything around the payload fits too.
    private const int MaxFrameBytes = 64 * 1024 * 1024;

    // Limits for small messages: this many take half a second on two busy cores, and a receiver rejects a frame with a million.
    private const int MaxMessages = 20_000;
    private const int MaxBatches = 10_000;

    private readonly bool _areFrames = options.FrameQueue is not null;

    /// <summary>The maximum bytes of payload, or of a frame, in one statement.</summary>
    public int MaxBytes { get; } = options.FrameQueue is null ? options.MaxStatementBytes : Math.Min(options.MaxStatementBytes, MaxFrameBytes);

    public int MaxBatchBytes => MaxBytes - FrameWriter.OverheadBytes;

    public int BytesOf(MessageBatch batch) => _areFrames ? FrameWriter.Measure([batch]) : batch.Payload.Length;

    /// <summary>Returns the runs in order: consecutive batches of one producer, with rising numbers, none of them refused.</summary>
    public IEnumerable<Range> Split(ReadOnlyMemory<MessageBatch> batches, SendReport report)
    {
        for (var start = 0; start < batches.Length;)
        {
            if (report.IsRefused(start))
            {
                start++;
                continue;
            }

            var end = EndOf(batches.Span, start, report);
            yield return start..end;
            start = end;
        }
    }

    private int EndOf(ReadOnlySpan<MessageBatch> batches, int start, SendReport report)
    {
        var bytes = (long)BytesOf(batches[start]);
        var messages = batches[start].Count;
        var end = start + 1;
        for (; end < batches.Length && end - start < MaxBatches && !report.IsRefused(end); end++)
        {
            var batch = batches[end];
            bytes += BytesOf(batch);
            messages += batch.Count;
            if (batch.Producer != batches[start].Producer || batch.Number <= batches[end - 1].Number || bytes > MaxBytes || messages > MaxMessages)
                break;
        }

        return end;
    }
}

/// <summary>Collects the outcomes of the batches of a send.</summary>
internal sealed class SendReport(int batches)
{
    // Not allocated for a send that succeeds as a whole.
    private BatchOutcome[]? _outcomes;
    private HashSet<string>? _refusals;
    private ImmutableArray<MessageRefusal>.Builder? _refusedMessages;
    private int _acknowledged;

    public bool HasRefusals => _refusals is not null;

    private BatchOutcome[] Outcomes => _outcomes ??= new BatchOutcome[batches];

    public bool IsRefused(int batch) => _outcomes?[batch] == BatchOutcome.Refused;

    public void Refuse(int batch, string sentence)
    {
        Outcomes[batch] = BatchOutcome.Refused;
        Add(sentence);
    }

    /// <summary>Refuses one message of a batch whose others are stored.</summary>
    public void Refuse(int batch, int message, string sentence)
    {
        (_refusedMessages ??= ImmutableArray.CreateBuilder<MessageRefusal>()).Add(new MessageRefusal(batch, message));
        Add(sentence);
    }

    public void Acknowledge(Range run)
    {
        var (start, length) = run.GetOffsetAndLength(batches);
        _acknowledged += length;
        if (length < batches || HasRefusals)
            Outcomes.AsSpan(start, length).Fill(BatchOutcome.Acknowledged);
    }

    /// <summary>Creates the exception that the send throws, with a cause when a statement failed.</summary>
    public Exception ToException(string target, Exception? cause)
    {
        if (cause is not null && _acknowledged == 0 && !Outcomes.Contains(BatchOutcome.Refused))
            return new IOException($"{target} did not accept the send. {Advise(cause)}", cause);
        var sentences = cause is null ? _refusals! : [.. _refusals ?? [], Advise(cause)];
        return new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(Outcomes), $"{target} did not accept all batches. {string.Join(' ', sentences)}", cause, _refusedMessages?.ToImmutable() ?? default);
    }

    // The messages of this package's own exceptions contain advice; those of Npgsql do not.
    private static string Advise(Exception cause) => cause is NpgsqlException ? ServerFault.Describe(cause) : FailureText.MessageOf(cause);

    private void Add(string sentence) => (_refusals ??= new HashSet<string>(StringComparer.Ordinal)).Add(sentence);
}
