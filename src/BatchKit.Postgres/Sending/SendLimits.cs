using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>Parts a send's batches into runs: what one statement stores.</summary>
internal sealed class SendLimits(PostgresOptions options)
{
    // What a frame has beside one message for a handle with a short name.
    private const int FrameOverheadBytes = 1024;

    // Half of what a receiver takes by default (FrameLimits), so that what surrounds the payload fits too.
    private const int MaxFrameBytes = 64 * 1024 * 1024;

    // Small messages are many before they are large: these take half a second on two busy cores, and a frame with a million is one that a receiver refuses.
    private const int MaxMessages = 20_000;
    private const int MaxBatches = 10_000;

    private readonly bool _areFrames = options.FrameQueue is not null;

    /// <summary>The most bytes of payload, or of the frame, in one statement.</summary>
    public int MaxBytes { get; } = options.FrameQueue is null ? options.MaxStatementBytes : Math.Min(options.MaxStatementBytes, MaxFrameBytes);

    public int MaxMessageBytes => MaxBytes - FrameOverheadBytes;

    public int BytesOf(MessageBatch batch) => _areFrames ? FrameWriter.Measure([batch]) : batch.Payload.Length;

    /// <summary>The runs in their order: batches side by side, of one producer, with rising numbers, none of them refused.</summary>
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
