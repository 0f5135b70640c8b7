using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Options;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Settings of a receiver of one queue. They are read once, when the receiver is created. A value outside its range stops the start; the error names the setting.</summary>
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
    /// count as having one key in common. It must be the number with which the queue was created; otherwise the receiver receives nothing, and its health says so.
    /// </summary>
    [Range(0, QueueLimits.MaxShards)]
    public int Shards { get; set; }

    /// <summary>How many batches this receiver handles at the same time; 10 by default. Each uses a connection of the pool, and keeps it for a second when it goes idle.</summary>
    [Range(1, 1000)]
    public int Concurrency { get; set; } = 10;

    /// <summary>The most messages in a batch; 100 by default.</summary>
    [Range(1, 10_000)]
    public int BatchSize { get; set; } = 100;

    /// <summary>The most bytes of payload in a batch; 8 MiB by default. A larger single message is a batch of its own.</summary>
    [Range(1, 256 * 1024 * 1024)]
    public int MaxBatchBytes { get; set; } = 8 * 1024 * 1024;

    /// <summary>
    /// How many messages to claim ahead of the handlers. One connection fetches them for all handlers, again when half of them are used. With 0, the default, each handler's worker claims for itself. It
    /// pays when handlers are fast and the server is far away; on a slow disk it may be slower. 0, or at least <see cref="BatchSize"/>. Not for ordered queues.
    /// </summary>
    [Range(0, 100_000)]
    public int Prefetch { get; set; }

    /// <summary>
    /// How long a claim lasts before other workers may claim its messages; 30 s by default. While the handler runs, the receiver renews the claim after each third of this time. So it limits how late a
    /// crashed worker's messages are handled, not how long a handler may take.
    /// </summary>
    [TimeSpanRange("00:00:01", "1.00:00:00")]
    public TimeSpan ClaimTimeLimit { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>How many attempts a message has before it is moved to the dead table; 5 by default. A crash while it is handled counts as an attempt.</summary>
    [Range(1, 1000)]
    public int MaxAttempts { get; set; } = 5;

    /// <summary>The pause before a failed message is handled again; 1 s by default. It doubles with each failure, less a random part of up to a half.</summary>
    [TimeSpanRange("00:00:00", "1.00:00:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>The longest pause before a failed message is handled again; 5 min by default.</summary>
    [TimeSpanRange("00:00:00", "30.00:00:00")]
    public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>What an ordered queue does with a message that has failed <see cref="MaxAttempts"/> times; it buries the message by default.</summary>
    [EnumDataType(typeof(PoisonPolicy))]
    public PoisonPolicy Poison { get; set; }

    /// <summary>How long dead messages are kept; 14 days by default. Null keeps them for ever.</summary>
    [TimeSpanRange("00:00:01", "3650.00:00:00")]
    public TimeSpan? DeadRetention { get; set; } = TimeSpan.FromDays(14);

    /// <summary>How often the receiver polls for work without a notification, and for claims that have ended; 1 s by default.</summary>
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

    /// <summary>The pause after the server could not be reached; 200 ms by default. It doubles with each failure, less a random part of up to a half.</summary>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The longest pause after the server could not be reached; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan MaxReconnectDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <inheritdoc cref="PostgresOptions.CommandTimeout"/>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan CommandTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long a stopping receiver waits for handlers; 5 s by default. After that it cancels them and gives back what they have not handled.</summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <inheritdoc cref="PostgresOptions.UsePreparedStatements"/>
    public bool UsePreparedStatements { get; set; } = true;

    /// <summary>Is told when the receiver reaches the server, no longer reaches it, or reaches it again; null by default.</summary>
    /// <remarks>
    /// It notices at its own statements: Npgsql's pool opens and closes connections as it needs them. Calls keep their order and do not overlap: return soon. What the callback throws stops nothing and
    /// makes health degraded.
    /// </remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>True: the host does not start while the server can't be reached, or the queue can't be used. False, the default: it starts, and the receiver goes on trying.</summary>
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

    /// <summary>Returns a copy that later changes do not reach.</summary>
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
    /// <summary>Moves it to the dead table, and goes on with the next message of its key.</summary>
    Bury = 0,

    /// <summary>Retries it for ever, with the longest pause. Later messages with its key wait; other keys go on.</summary>
    Block = 1,
}

/// <summary>Checks the options against their attributes; the code is generated, so it is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresQueueReceiverOptionsValidator : IValidateOptions<PostgresQueueReceiverOptions>
{
    public static PostgresQueueReceiverOptionsValidator Shared { get; } = new();

    public static void ThrowIfInvalid(PostgresQueueReceiverOptions options) => OptionsRules.ThrowIfInvalid(Shared, options);
}
