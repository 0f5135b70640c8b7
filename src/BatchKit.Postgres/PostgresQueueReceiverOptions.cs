using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Options;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Settings of a receiver of one queue. They are read once, when the receiver is created. A value outside its range makes the start fail; the error names the setting.</summary>
public sealed class PostgresQueueReceiverOptions : IValidatableObject
{
    /// <inheritdoc cref="PostgresOptions.Schema"/>
    [Required]
    public string Schema { get; set; } = "batchkit";

    /// <inheritdoc cref="PostgresOptions.CreateSchema"/>
    public bool CreateSchema { get; set; } = true;

    /// <summary>The queue's name, which is the name of the handle that senders write to; 1 to 1,024 UTF-8 bytes.</summary>
    [Required]
    public string Queue { get; set; } = string.Empty;

    /// <summary>
    /// The number of shards of the queue. 0, the default, means a queue without order. With 1 or more, messages are handled in order per <see cref="MessageHeader.Key"/>; messages without a key
    /// count as having the same key. It must be the number with which the queue was created; otherwise the receiver receives nothing, and its health check reports that.
    /// </summary>
    [Range(0, QueueLimits.MaxShards)]
    public int Shards { get; set; }

    /// <summary>How many batches this receiver handles at the same time; 10 by default. Batches that end at the same time are settled together, in the round trip that claims the next ones. In an ordered queue each uses a connection of the pool.</summary>
    [Range(1, 1000)]
    public int Concurrency { get; set; } = 10;

    /// <summary>The maximum number of messages in a batch; 100 by default.</summary>
    [Range(1, 10_000)]
    public int BatchSize { get; set; } = 100;

    /// <summary>The maximum bytes of payload and headers in a batch, and in the batches that one round trip claims; 8 MiB by default. A larger single message is a batch of its own.</summary>
    [Range(1, 256 * 1024 * 1024)]
    public int MaxBatchBytes { get; set; } = 8 * 1024 * 1024;

    /// <summary>
    /// How many messages to claim ahead of the handlers: 0, the default, or at least <see cref="BatchSize"/>. One connection fetches them for all handlers, and fetches more when half of them are used. Prefetching
    /// helps when handlers are fast and the server is far away; on a slow disk it may be slower. Ordered queues do not support it.
    /// </summary>
    [Range(0, 100_000)]
    public int Prefetch { get; set; }

    /// <summary>
    /// How long a claim lasts before other workers may claim its messages; 30 s by default. While the handler runs, the receiver renews the claim after each third of this time. So this setting limits how late
    /// a crashed worker's messages are handled, and not how long a handler may take; see <see cref="HandlerTimeLimit"/>.
    /// </summary>
    [TimeSpanRange("00:00:01", "1.00:00:00")]
    public TimeSpan ClaimTimeLimit { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>
    /// How long the handler of a batch may run; null, the default, for no limit. After it the handler's token is cancelled, and messages that it has not marked when it ends have failed. When it has not ended after one
    /// more second, it is given up: the whole batch has failed, other workers may handle its messages, and the worker claims the next ones. Set it well above what a batch of <see cref="BatchSize"/> takes.
    /// </summary>
    /// <remarks>
    /// A handler that was given up still runs, at the same time as the next attempt, also in an ordered queue. Nothing that it marks counts any more. While as many such handlers run as <see cref="Concurrency"/>, at least 10, the receiver claims nothing, and
    /// its health check says so. With a limit, handlers start on the thread pool, so that one that blocks its thread does not block the receiver.
    /// </remarks>
    [TimeSpanRange("00:00:00.100", "1.00:00:00")]
    public TimeSpan? HandlerTimeLimit { get; set; }

    /// <summary>How many attempts a message has before it is moved to the dead table; 5 by default. A crash while it is handled counts as an attempt.</summary>
    [Range(1, 1000)]
    public int MaxAttempts { get; set; } = 5;

    /// <summary>The pause before a failed message is handled again; 1 s by default. It doubles with each failure; a random part of up to a half is subtracted.</summary>
    [TimeSpanRange("00:00:00", "1.00:00:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>The maximum pause before a failed message is handled again; 5 min by default.</summary>
    [TimeSpanRange("00:00:00", "30.00:00:00")]
    public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>What an ordered queue does with a message that has failed <see cref="MaxAttempts"/> times; it buries the message by default.</summary>
    [EnumDataType(typeof(PoisonPolicy), ErrorMessage = "{0} must be Bury or Block.")]
    public PoisonPolicy Poison { get; set; }

    /// <summary>How long dead messages are kept; 14 days by default. Null keeps them without limit.</summary>
    [TimeSpanRange("00:00:01", "3650.00:00:00")]
    public TimeSpan? DeadRetention { get; set; } = TimeSpan.FromDays(14);

    /// <summary>How often the receiver polls for claims that have ended, and for messages whose notification was lost; 1 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan PollInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// The connection string for LISTEN. Set it when the data source connects through a pooler in transaction mode (PgBouncer), which loses notifications; see also <see cref="UsePreparedStatements"/>. Null, the default, uses a connection of the data
    /// source for as long as the receiver runs. It may contain a password, and is never logged.
    /// </summary>
    public string? ListenConnectionString { get; set; }

    /// <summary>How often a silent LISTEN connection is checked; 10 s by default. A connection that does not answer within the same time is replaced.</summary>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan ListenKeepAlive { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The pause after the server could not be reached; 200 ms by default. It doubles with each failure; a random part of up to a half is subtracted.</summary>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The maximum pause after the server could not be reached; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan MaxReconnectDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The time limit of a statement, rounded up to whole seconds; 10 s by default. After that the statement has failed, and the receiver retries it after a pause.</summary>
    /// <remarks><inheritdoc cref="PostgresOptions.CommandTimeout" path="/remarks"/></remarks>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan CommandTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long a stopping receiver waits for handlers; 5 s by default. After that it cancels them and gives back what they have not handled.</summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <inheritdoc cref="PostgresOptions.UsePreparedStatements"/>
    public bool UsePreparedStatements { get; set; } = true;

    /// <summary>Called when the receiver reaches the server, no longer reaches it, or reaches it again; null by default.</summary>
    /// <remarks>
    /// The receiver detects this by its own statements, because Npgsql's pool opens and closes connections as it needs them. Calls keep their order and do not overlap, so return quickly. An exception from the
    /// callback stops nothing; the health check then reports degraded.
    /// </remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>True: the host does not start while the server can't be reached, or the queue can't be used. False, the default: the host starts, and the receiver keeps trying.</summary>
    public bool FailFast { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QueueLimits.RefuseSchema(Schema) is { } schemaReason)
            yield return new ValidationResult($"{nameof(Schema)} {schemaReason}", [nameof(Schema)]);
        if (QueueLimits.RefuseQueue(Queue) is { } queueReason)
            yield return new ValidationResult($"{nameof(Queue)} {queueReason}", [nameof(Queue)]);
        if (MaxRetryDelay < RetryDelay)
            yield return new ValidationResult($"{nameof(MaxRetryDelay)} ({MaxRetryDelay}) must not be below {nameof(RetryDelay)} ({RetryDelay}).", [nameof(MaxRetryDelay)]);
        if (MaxReconnectDelay < ReconnectDelay)
        {
            yield return new ValidationResult(
                $"{nameof(MaxReconnectDelay)} ({MaxReconnectDelay}) must not be below {nameof(ReconnectDelay)} ({ReconnectDelay}).", [nameof(MaxReconnectDelay)]);
        }

        // The error does not repeat the text, which may contain a password.
        if (ListenConnectionString is not null && !IsConnectionString(ListenConnectionString))
            yield return new ValidationResult($"{nameof(ListenConnectionString)} is not a connection string that Npgsql understands.", [nameof(ListenConnectionString)]);
        if (Prefetch > 0 && Shards > 0)
            yield return new ValidationResult($"{nameof(Prefetch)} ({Prefetch}) must be 0 for an ordered queue ({nameof(Shards)} is {Shards}).", [nameof(Prefetch)]);
        if (Prefetch > 0 && Prefetch < BatchSize)
            yield return new ValidationResult($"{nameof(Prefetch)} ({Prefetch}) must be 0, or at least {nameof(BatchSize)} ({BatchSize}).", [nameof(Prefetch)]);
    }

    /// <summary>Returns a copy that later changes do not affect.</summary>
    internal PostgresQueueReceiverOptions Copy() => (PostgresQueueReceiverOptions)MemberwiseClone();

    private static bool IsConnectionString(string text)
    {
        try
        {
            return new NpgsqlConnectionStringBuilder(text).Host is { Length: > 0 };
        }
        catch (Exception exception) when (exception is ArgumentException or FormatException)
        {
            return false;
        }
    }
}

/// <summary>What an ordered queue does with a message that has used all its attempts.</summary>
public enum PoisonPolicy
{
    /// <summary>Moves it to the dead table, and continues with the next message of its key.</summary>
    Bury = 0,

    /// <summary>Keeps retrying it, with the maximum pause. Later messages with its key wait; other keys are not affected.</summary>
    Block = 1,
}

/// <summary>Checks the options' attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresQueueReceiverOptionsValidator : IValidateOptions<PostgresQueueReceiverOptions>;
