using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using Microsoft.Extensions.Options;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Settings of a consumer of one queue. Read once, when it is made; a value outside its range stops the start and names the setting.</summary>
public sealed class PostgresQueueReceiverOptions : IValidatableObject
{
    /// <inheritdoc cref="PostgresOptions.Schema"/>
    [Required]
    public string Schema { get; set; } = "batchkit";

    /// <inheritdoc cref="PostgresOptions.CreateSchema"/>
    public bool CreateSchema { get; set; } = true;

    /// <summary>The queue's name, which is the name of the handle that is written to; 1 to 1,024 UTF-8 bytes.</summary>
    [Required]
    public string Queue { get; set; } = string.Empty;

    /// <summary>
    /// How many shards the queue has: 0, the default, is a queue without order; from 1 on messages are handled in order per <see cref="MessageHeader.Key"/>, those without a key as if they
    /// had one in common. Must be what the queue was created with; the receiver says so when it is not.
    /// </summary>
    [Range(0, QueueLimits.MaxShards)]
    public int Shards { get; set; }

    /// <summary>How many batches this receiver handles at once; 10 by default. Each busy one holds a connection of the pool, and for a second beyond.</summary>
    [Range(1, 1000)]
    public int Concurrency { get; set; } = 10;

    /// <summary>The most messages in a batch; 100 by default.</summary>
    [Range(1, 10_000)]
    public int BatchSize { get; set; } = 100;

    /// <summary>The most bytes of payload in a batch, its first message always included; 8 MiB by default.</summary>
    [Range(1, 256 * 1024 * 1024)]
    public int MaxBatchBytes { get; set; } = 8 * 1024 * 1024;

    /// <summary>
    /// How many messages to hold ready beside those being handled, fetched by one connection for all and refilled at half; 0 by default: each of the concurrent handlers claims for itself. Worth it
    /// where handlers are fast and the way to the server is long; on a slow disk it is slower. At least <see cref="BatchSize"/>. Not for ordered queues.
    /// </summary>
    [Range(0, 100_000)]
    public int Prefetch { get; set; }

    /// <summary>
    /// How long a claim lasts before others may take its messages; 30 s by default. It is renewed at a third of it while the handler runs, so it limits how late a crashed worker's messages are
    /// handled, not how long a handler takes.
    /// </summary>
    [TimeSpanRange("00:00:01", "1.00:00:00")]
    public TimeSpan ClaimTimeLimit { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>How often a message is handled before it goes to the dead table; 5 by default. A crash while it is handled counts.</summary>
    [Range(1, 1000)]
    public int MaxAttempts { get; set; } = 5;

    /// <summary>The pause before a failed message is handled again; 1 s by default. It doubles with each failure, less a random part of up to a half.</summary>
    [TimeSpanRange("00:00:00", "1.00:00:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>The longest pause before a failed message is handled again; 5 min by default.</summary>
    [TimeSpanRange("00:00:00", "30.00:00:00")]
    public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>What an ordered queue does with a message that has failed <see cref="MaxAttempts"/> times; buries it by default.</summary>
    [EnumDataType(typeof(PoisonPolicy))]
    public PoisonPolicy Poison { get; set; }

    /// <summary>How long dead messages are kept; 14 days by default. Null keeps them for ever.</summary>
    [TimeSpanRange("00:00:01", "3650.00:00:00")]
    public TimeSpan? DeadRetention { get; set; } = TimeSpan.FromDays(14);

    /// <summary>How often the receiver looks for work that no notification told of, and for claims that have ended; 1 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan PollInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// Where to LISTEN, when that must not go through the data source: a pooler in transaction mode (PgBouncer) loses notifications. Null by default, which takes a connection of the data source for
    /// as long as the receiver runs. It may hold a password, and is never logged.
    /// </summary>
    public string? ListenConnectionString { get; set; }

    /// <summary>How often a silent LISTEN connection is asked whether it lives; 10 s by default. One that does not answer for as long is replaced.</summary>
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

    /// <summary>The longest that a stopping receiver waits for handlers; 5 s by default. Then they are cancelled, and what they held is given back at once.</summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

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

        // The text itself is not repeated: it may hold a password.
        if (ListenConnectionString is not null && !IsConnectionString(ListenConnectionString))
            yield return new ValidationResult($"{nameof(ListenConnectionString)} is not a connection string that Npgsql understands.", [nameof(ListenConnectionString)]);
        if (Prefetch > 0 && Shards > 0)
            yield return new ValidationResult($"{nameof(Prefetch)} ({Prefetch}) must be 0 for an ordered queue ({nameof(Shards)} is {Shards}).", [nameof(Prefetch)]);
        if (Prefetch > 0 && Prefetch < BatchSize)
            yield return new ValidationResult($"{nameof(Prefetch)} ({Prefetch}) must be 0, or at least {nameof(BatchSize)} ({BatchSize}).", [nameof(Prefetch)]);
    }

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

/// <summary>What an ordered queue does with a message that has failed as often as it may.</summary>
public enum PoisonPolicy
{
    /// <summary>It goes to the dead table, and its key goes on without it.</summary>
    Bury = 0,

    /// <summary>It is tried for ever, at the longest pause; what has the same key waits behind it, other keys go on.</summary>
    Block = 1,
}

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresQueueReceiverOptionsValidator : IValidateOptions<PostgresQueueReceiverOptions>
{
    private static readonly PostgresQueueReceiverOptionsValidator Shared = new();

    public static void ThrowIfInvalid(PostgresQueueReceiverOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(PostgresQueueReceiverOptions), result.Failures);
    }
}
