using System.ComponentModel.DataAnnotations;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Settings of an outbox. They are read once, when the outbox is created. A value outside its range makes the start fail; the error names the setting.</summary>
public sealed class PostgresOutboxOptions : IValidatableObject
{
    /// <inheritdoc cref="PostgresOptions.Schema"/>
    [Required]
    public string Schema { get; set; } = "batchkit";

    /// <inheritdoc cref="PostgresOptions.CreateSchema"/>
    public bool CreateSchema { get; set; } = true;

    /// <summary>The outbox's name, 1 to 1,024 UTF-8 bytes; <c>outbox</c> by default. Only one of the processes that share an outbox forwards its output at a time.</summary>
    [Required]
    public string Name { get; set; } = "outbox";

    /// <summary>The maximum number of stored rows that are forwarded in one send of the inner transport; 100 by default. A row is a stored send or enqueue, or a part of one.</summary>
    [Range(1, 10_000)]
    public int BatchSize { get; set; } = 100;

    /// <summary>The time limit of a send of the inner transport; 10 s by default. After that the send is cancelled, and retried after a pause.</summary>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan SendTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The time after which another process continues to forward the output of a process that was killed; 10 s by default.</summary>
    [TimeSpanRange("00:00:01", "01:00:00")]
    public TimeSpan ClaimTimeLimit { get; set; } = TimeSpan.FromSeconds(10);

    /// <inheritdoc cref="PostgresQueueReceiverOptions.PollInterval"/>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan PollInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <inheritdoc cref="PostgresQueueReceiverOptions.ListenConnectionString"/>
    public string? ListenConnectionString { get; set; }

    /// <inheritdoc cref="PostgresOptions.CommandTimeout"/>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan CommandTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <inheritdoc cref="PostgresOptions.UsePreparedStatements"/>
    public bool UsePreparedStatements { get; set; } = true;

    /// <summary>Called when the outbox reaches the server, no longer reaches it, or reaches it again; null by default.</summary>
    /// <remarks>
    /// The outbox detects this by its own statements, because Npgsql's pool opens and closes connections as it needs them. Calls keep their order and do not overlap, so return quickly. An exception from the
    /// callback stops nothing; the health check then reports degraded.
    /// </remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>True: the host does not start while the server can't be reached, or the outbox's queue can't be used. False, the default: the host starts, and the outbox keeps trying.</summary>
    public bool FailFast { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QueueLimits.RefuseSchema(Schema) is { } schemaReason)
            yield return new ValidationResult($"{nameof(Schema)} {schemaReason}", [nameof(Schema)]);
        if (QueueLimits.RefuseQueue(Name) is { } nameReason)
            yield return new ValidationResult($"{nameof(Name)} {nameReason}", [nameof(Name)]);
    }

    /// <summary>Returns a copy that later changes do not affect.</summary>
    internal PostgresOutboxOptions Copy() => (PostgresOutboxOptions)MemberwiseClone();
}

/// <summary>Checks the options' attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresOutboxOptionsValidator : IValidateOptions<PostgresOutboxOptions>;
