using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Settings of a transport to queues in PostgreSQL. They are read once, when the transport is created. A value outside its range makes the start fail; the error names the setting.</summary>
public sealed class PostgresOptions : IValidatableObject
{
    /// <summary>The schema of the tables; <c>batchkit</c> by default. It can be any name of 1 to 63 UTF-8 bytes, PostgreSQL's limit for identifiers; statements quote it.</summary>
    [Required]
    public string Schema { get; set; } = "batchkit";

    /// <summary>True, the default, creates or migrates the schema at the first use. False expects it to exist, for users without the right to create tables; see <see cref="PostgresSchema"/>.</summary>
    public bool CreateSchema { get; set; } = true;

    /// <summary>
    /// When set, all output goes to this queue, whatever its handle, and each row is a frame, which <c>ReceiveFromPostgres</c> receives. Null by
    /// default: a handle's name is its queue, and each row is a message.
    /// </summary>
    [StringLength(QueueLimits.MaxNameBytes, MinimumLength = 1)]
    public string? FrameQueue { get; set; }

    /// <summary>
    /// The number of shards of queues that this transport creates. 0, the default, creates queues without order. With 1 or more, messages are handled in order per
    /// <see cref="MessageHeader.Key"/>, and at most that many workers share the queue. An existing queue keeps its number of shards. If that number is 0 and this one is not, the transport refuses batches for
    /// the queue. Use <see cref="QueueShards"/> for single queues.
    /// </summary>
    [Range(0, QueueLimits.MaxShards)]
    public int Shards { get; set; }

    /// <summary>The number of shards of single queues, by name; empty by default. It overrides <see cref="Shards"/>, so that one buffer can write to queues with and without order.</summary>
    public IDictionary<string, int> QueueShards { get; private set; } = new Dictionary<string, int>(StringComparer.Ordinal);

    /// <summary>
    /// The shortest time between two notifications of one queue; 0.5 ms by default. The first notification after a pause is sent with the messages; further ones wait for the end of the interval, in
    /// whole milliseconds. With a longer interval, workers wake less often and get larger batches later.
    /// </summary>
    [TimeSpanRange("00:00:00", "00:01:00")]
    public TimeSpan NotifyInterval { get; set; } = TimeSpan.FromMilliseconds(0.5);

    /// <summary>The maximum bytes of payload in one INSERT statement; 16 MiB by default. With <see cref="FrameQueue"/> it is the largest frame, which is at most 64 MiB.</summary>
    /// <remarks>A send with more bytes, with more than 20,000 messages or with more than 10,000 batches takes several statements, in order, each in its own transaction.</remarks>
    [Range(4096, 256 * 1024 * 1024)]
    public int MaxStatementBytes { get; set; } = 16 * 1024 * 1024;

    /// <summary>The time limit of a statement; 10 s by default. After that the send fails, and the buffer retries it. Keep it below <see cref="OutputBufferOptions.SendTimeout"/>.</summary>
    /// <remarks>
    /// Npgsql first asks the server to cancel the statement. When the server no longer answers, this takes up to the connection string's <c>Timeout</c> (15 s by default) for each attempt, plus
    /// <c>Cancellation Timeout</c> (2 s by default). Lower both if a server may become unreachable.
    /// </remarks>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan CommandTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>True, the default, prepares statements once for each connection. Set it to false behind a pooler in transaction mode (PgBouncer), where a prepared statement may be missing on the next connection.</summary>
    public bool UsePreparedStatements { get; set; } = true;

    /// <summary>Called when the transport reaches the server, no longer reaches it, or reaches it again; null by default.</summary>
    /// <remarks>
    /// The transport detects this by its own statements, because Npgsql's pool opens and closes connections as it needs them. Calls keep their order and do not overlap, so return quickly. An exception from the
    /// callback stops nothing; the health check then reports degraded.
    /// </remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>True: the host does not start while the server can't be reached. False, the default: the host starts without the server, and sends are retried.</summary>
    public bool FailFast { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QueueLimits.RefuseSchema(Schema) is { } schemaReason)
            yield return new ValidationResult($"{nameof(Schema)} {schemaReason}", [nameof(Schema)]);
        if (FrameQueue is not null && QueueLimits.RefuseQueue(FrameQueue) is { } queueReason)
            yield return new ValidationResult($"{nameof(FrameQueue)} {queueReason}", [nameof(FrameQueue)]);
        foreach (var (queue, shards) in QueueShards)
        {
            if (shards is < 0 or > QueueLimits.MaxShards)
                yield return new ValidationResult($"{nameof(QueueShards)} of '{queue}' ({shards}) must be from 0 to {QueueLimits.MaxShards}.", [nameof(QueueShards)]);
        }
    }

    /// <summary>True for an outbox's store. It keeps its producers' numbers apart from those of transports in the same schema, because the outbox may forward the same producers and numbers to one of them.</summary>
    internal bool IsOutbox { get; init; }

    /// <summary>Returns a copy that later changes do not affect.</summary>
    internal PostgresOptions Copy()
    {
        var copy = (PostgresOptions)MemberwiseClone();
        copy.QueueShards = new Dictionary<string, int>(QueueShards, StringComparer.Ordinal);
        return copy;
    }

    /// <summary>Returns the number of shards with which a queue is created.</summary>
    internal int ShardsOf(string queue) => QueueShards.TryGetValue(queue, out var shards) ? shards : Shards;
}

/// <summary>Checks the options' attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresOptionsValidator : IValidateOptions<PostgresOptions>;
